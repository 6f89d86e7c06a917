package overview

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/link"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/session"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/view"
)

// Topic is the page of one original topic.
type Topic struct {
	API      api.Client
	Renderer *view.Renderer
	Now      func() time.Time
}

type topicPage struct {
	topic
	Offsets  []groupOffsets
	Advice   advice
	Groups   []api.ErrorGroup
	Redrives []topicRedrive
	Rules    []string // rules, also of the configuration, whose original topic is exactly this name
	Chart    chart
	Range    string
	Ranges   []string
	Unknown  map[string]string // the reasons why parts of the page could not be read, by the name of the part
	WhyNot   string            // the reason for which the viewer may not retry; "": the viewer may
}

// Existence says in words whether the topic exists in Kafka.
func (p topicPage) Existence() string {
	switch exists := p.Replay.Exists; {
	case exists == nil:
		return "Whether it exists in Kafka is not known."
	case *exists:
		return "It exists in Kafka."
	default:
		return "It does not exist in Kafka."
	}
}

// groupOffsets are the offsets of a consumer group in a topic.
type groupOffsets struct {
	consumerGroup
	Partitions []struct {
		Partition int32  `json:"partition"`
		Committed *int64 `json:"committed"`
		End       *int64 `json:"end"`
		Lag       *int64 `json:"lag"`
	} `json:"partitions"`
}

type topicRedrive struct {
	liveRedrive
	CreatedAt time.Time `json:"created_at"`
	Selection struct {
		Filter *struct {
			Topic string `json:"topic"`
		} `json:"filter"`
	} `json:"selection"`
}

// Show answers with the page of a topic, also if the topic has no messages.
func (t *Topic) Show(w http.ResponseWriter, r *http.Request) error {
	name, chosen := r.PathValue("topic"), r.URL.Query().Get("span")
	if !slices.Contains(ranges, chosen) {
		chosen = ranges[0]
	}
	viewer := session.ViewerOf(r)
	data := topicPage{topic: topic{Topic: name}, Range: chosen, Ranges: ranges, Unknown: map[string]string{}, WhyNot: viewer.Why("operator", name)}
	var recent, arrivals activity
	parts := []part{
		{"topic", func(r *http.Request) error { return t.describe(r, &data) }},
		{"arrivals", func(r *http.Request) (err error) {
			arrivals, err = readActivity(r, t.API, chosen, name)
			return err
		}},
		{"last arrivals", func(r *http.Request) (err error) {
			recent, err = readActivity(r, t.API, ranges[0], name)
			return err
		}},
		{"error groups", func(r *http.Request) (err error) { data.Groups, err = t.groups(r, name); return err }},
		{"redrives", func(r *http.Request) (err error) { data.Redrives, err = t.redrives(r, name); return err }},
	}
	if viewer.Everywhere("viewer") {
		parts = append(parts, part{"mapping", func(r *http.Request) (err error) { data.Rules, err = t.rules(r, name); return err }})
	}
	p := page{Unknown: data.Unknown}
	if err := p.read(r, parts); err != nil {
		return err
	}
	data.Chart, data.Advice = arrivals.draw(t.Now(), name), data.advise(t.Now(), recent.Total().Returned)
	if reason := data.Unknown["last arrivals"]; reason != "" {
		data.Advice = advice{Text: reason}
	}
	return t.Renderer.Render(w, r, http.StatusOK, "topic", view.Page{Title: name, Nav: link.Topics, Data: data})
}

func (t *Topic) describe(r *http.Request, data *topicPage) error {
	var answer struct {
		Topic   topic          `json:"topic"`
		Offsets []groupOffsets `json:"consumer_groups"`
	}
	err := t.API.Get(r, api.Endpoint("topics", data.Topic), nil, &answer)
	if err == nil {
		data.topic, data.Offsets = answer.Topic, answer.Offsets
	}
	return err
}

func (t *Topic) groups(r *http.Request, name string) ([]api.ErrorGroup, error) {
	var answer struct {
		Groups []api.ErrorGroup `json:"groups"`
	}
	query := url.Values{"topic": {name}, "status": {"PENDING,RETRYING"}, "sort": {"recent"}, "minutes": {"true"}, "trend": {"none"}, "limit": {"10"}}
	err := t.API.Get(r, api.Endpoint("groups"), query, &answer)
	return answer.Groups, err
}

// redrives returns those of the latest 100 redrives whose filter names the topic, at most maxRedrives.
func (t *Topic) redrives(r *http.Request, name string) (found []topicRedrive, err error) {
	var answer struct {
		Redrives []topicRedrive `json:"redrives"`
	}
	if err := t.API.Get(r, api.Endpoint("redrives"), url.Values{"limit": {"100"}}, &answer); err != nil {
		return nil, err
	}
	for _, d := range answer.Redrives {
		if d.Selection.Filter != nil && slices.Contains(strings.Split(d.Selection.Filter.Topic, ", "), name) && len(found) < maxRedrives {
			found = append(found, d)
		}
	}
	return found, nil
}

// rules returns the rules, of the mapping and of the configuration, whose original topic is exactly this name.
func (t *Topic) rules(r *http.Request, name string) (found []string, err error) {
	type rule struct {
		Pattern  string `json:"pattern"`
		Original string `json:"original"`
	}
	var answer struct {
		Rules      []rule `json:"rules"`
		Configured []rule `json:"configured"`
	}
	if err := t.API.Get(r, api.Endpoint("mappings"), nil, &answer); err != nil {
		return nil, err
	}
	for _, rule := range append(answer.Rules, answer.Configured...) {
		if rule.Original == name {
			found = append(found, rule.Pattern+" -> "+rule.Original)
		}
	}
	return found, nil
}
