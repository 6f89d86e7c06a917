package overview

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/format"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/link"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/view"
)

// topic is an original topic with the numbers of its messages.
type topic struct {
	Topic         string     `json:"topic"` // "": unknown origin
	DLQTopics     []string   `json:"dlq_topics"`
	Counts        api.Counts `json:"counts"`
	Total         int64      `json:"total"`
	OldestPending time.Time  `json:"oldest_pending_at"`
	LastSeen      time.Time  `json:"last_seen_at"`
	IngestLag     *int64     `json:"ingest_lag"`
	Replay        replay     `json:"replay"`
	AutoPause     *struct {
		Until  time.Time `json:"until"`
		Reason string    `json:"reason"`
	} `json:"automatic_retry_pause"` // nil: automatic retry does not pause
}

type topicList struct {
	Topics  []topic  `json:"topics"`
	Next    string   `json:"next_cursor"`
	Missing []string `json:"missing"` // names of the fields that are missing because Kafka did not answer in time
}

type replay struct {
	Possible bool            `json:"possible"`
	Reason   string          `json:"reason"`
	Class    string          `json:"class"`
	Exists   *bool           `json:"exists"` // nil: it is not known
	SentTo   string          `json:"redirected_to"`
	Groups   []consumerGroup `json:"consumer_groups"`
}

// Unknown reports whether Kafka did not answer, so that nothing is known about replays into the topic.
func (r replay) Unknown() bool { return r.Class == "BROKER_UNAVAILABLE" }

// Missing reports whether the topic does not exist.
func (r replay) Missing() bool { return r.Exists != nil && !*r.Exists }

// consumerGroup is a consumer group of a topic. Its state as the API reports it is running, behind (it has not consumed
// all records), absent or unknown.
type consumerGroup struct {
	Group string `json:"group"`
	State string `json:"state"`
	Lag   *int64 `json:"lag"`
}

type advice struct {
	Good bool // the advice says that a retry may help
	Text string
}

// advise summarizes in words what is known of a topic. returned is the number of messages that failed again in the last
// hour.
func (t topic) advise(now time.Time, returned int64) advice {
	switch {
	case t.Replay.Unknown():
		return advice{Text: "not known: Kafka does not answer"}
	case !t.Replay.Possible:
		return advice{Text: "cannot be sent back: " + t.Replay.Reason}
	case t.hasNoConsumer():
		return advice{Text: "no consumer reads this topic now"}
	case returned > 0:
		return advice{Text: format.Plural(returned, "replay", "replays") + " failed again in the last hour: find the cause first"}
	case now.Sub(t.LastSeen) < stillArriving:
		return advice{Text: "still failing: find the cause first"}
	case t.Counts.Pending > 0:
		return advice{Good: true, Text: "nothing new for " + format.Rough(now.Sub(t.LastSeen)) + ": try one"}
	case t.Counts.Dead > 0:
		return advice{Good: true, Text: "all dead: requeue those to try again"}
	default:
		return advice{Good: true, Text: "under way"}
	}
}

func (t topic) hasNoConsumer() bool {
	reads := func(g consumerGroup) bool { return g.State != "absent" }
	return len(t.Replay.Groups) > 0 && !slices.ContainsFunc(t.Replay.Groups, reads)
}

// moreTopics is the maximum number of pages of 1,000 topics that are read; topics on further pages are left out.
const moreTopics = 5

// allTopics reads the topics that the viewer may see, at most moreTopics pages.
func allTopics(r *http.Request, client api.Client) (topicList, error) {
	var all topicList
	query := url.Values{"limit": {"1000"}}
	for range moreTopics {
		var answer topicList
		if err := client.Get(r, api.Endpoint("topics"), query, &answer); err != nil {
			return topicList{}, err
		}
		all.Topics, all.Missing = append(all.Topics, answer.Topics...), append(all.Missing, answer.Missing...)
		if answer.Next == "" {
			break
		}
		query.Set("cursor", answer.Next)
	}
	return all, nil
}

// Topics is the list of topics.
type Topics struct {
	API      api.Client
	Renderer *view.Renderer
}

// shareGroup is a share group whose configuration names a dead-letter topic.
type shareGroup struct {
	Group    string         `json:"group"`
	DLQTopic string         `json:"dlq_topic"`
	Copies   bool           `json:"copies_records"`
	Topics   []string       `json:"topics"` // nil: not known
	Waiting  int64          `json:"messages_waiting"`
	Refused  int64          `json:"messages_refused"`
	Problems []shareProblem `json:"problems"`
}

// Known reports whether the topics that the share group reads are known.
func (g shareGroup) Known() bool { return g.Topics != nil }

type shareProblem struct {
	Code    string `json:"code"`
	Text    string `json:"text"`
	Command string `json:"command"`
}

type shareGroupList struct {
	Groups  []shareGroup `json:"share_groups"`
	Total   int          `json:"total"`
	Unknown string       `json:"-"` // why the share groups are not known; "": they are
}

// More returns how many share groups are not shown.
func (l shareGroupList) More() int64 { return int64(l.Total - len(l.Groups)) }

// shownShareGroups is how many share groups the page shows, those with problems first; of the others it shows only the
// number.
const shownShareGroups = 100

// shareGroups reads the share groups that the viewer may see; none where Kafka is not configured.
func (t *Topics) shareGroups(r *http.Request) (list shareGroupList, err error) {
	err = t.API.Get(r, api.Endpoint("share-groups"), nil, &list)
	list.Groups = list.Groups[:min(len(list.Groups), shownShareGroups)]
	var refused *api.Error
	if !errors.As(err, &refused) || refused.Status != http.StatusServiceUnavailable {
		return list, err
	}
	list.Unknown = refused.Message
	for _, d := range refused.Details {
		if reason, _ := d["reason"].(string); d["field"] == "kafka" {
			if list.Unknown = "Kafka " + reason; reason == "is not configured" {
				list.Unknown = ""
			}
		}
	}
	return list, nil
}

type topicsPage struct {
	Shares  shareGroupList // share groups; set on the first page of the list only
	Topics  []topic
	Missing []string // names of the fields that are missing because Kafka did not answer in time
	Unknown int64    // number of messages of unknown origin; set on the first page of the list only
	First   string   // address of the first page; "" on the first page
	Older   string   // address of the next page; "" on the last page
}

const topicsOnPage = "100"

// Show lists the topics.
func (t *Topics) Show(w http.ResponseWriter, r *http.Request) error {
	query := link.Query("limit", topicsOnPage, "cursor", r.URL.Query().Get("cursor"))
	var data topicsPage
	if query.Has("cursor") {
		data.First = "/topics"
	}
	var answer topicList
	if err := t.API.Get(r, api.Endpoint("topics"), query, &answer); err != nil {
		return err
	}
	data.Topics, data.Missing = answer.Topics, answer.Missing
	if data.First == "" {
		var err error
		if data.Shares, err = t.shareGroups(r); err != nil {
			return err
		}
	}
	if answer.Next != "" {
		data.Older = link.To("/topics", "cursor", answer.Next)
	}
	for _, listed := range answer.Topics {
		if listed.Topic == "" {
			data.Unknown = listed.Total
		}
	}
	return t.Renderer.Render(w, r, http.StatusOK, "topics", view.Page{Title: "Topics", Nav: "/topics", Data: data})
}
