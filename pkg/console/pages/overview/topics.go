package overview

import (
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
}

type topicList struct {
	Topics  []topic  `json:"topics"`
	Next    string   `json:"next_cursor"`
	Missing []string `json:"missing"` // fields that Kafka did not answer in time
}

type replay struct {
	Possible bool            `json:"possible"`
	Reason   string          `json:"reason"`
	Class    string          `json:"class"`
	Exists   *bool           `json:"exists"` // nil: it is not known
	SentTo   string          `json:"redirected_to"`
	Groups   []consumerGroup `json:"consumer_groups"`
}

// Unknown reports whether Kafka has not answered.
func (r replay) Unknown() bool { return r.Class == "BROKER_UNAVAILABLE" }

// Missing reports whether the topic does not exist.
func (r replay) Missing() bool { return r.Exists != nil && !*r.Exists }

// consumerGroup is a consumer group of a topic. Its state is running, behind, absent or unknown.
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

// moreTopics limits how many pages of 1,000 topics are read.
const moreTopics = 5

// allTopics reads the topics that the viewer may see.
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

type topicsPage struct {
	Topics  []topic
	Missing []string // fields that Kafka did not answer in time
	Unknown int64    // messages of unknown origin; only the first page of the list has them
	First   string   // first page; "" on it
	Older   string   // next page; "" on the last
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
