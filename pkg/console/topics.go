package console

import (
	"net/http"
	"net/url"
	"slices"
	"time"
)

type topicState struct {
	Topic         string    `json:"topic"` // "": unknown origin
	DLQTopics     []string  `json:"dlq_topics"`
	Counts        counts    `json:"counts"`
	Total         int64     `json:"total"`
	OldestPending time.Time `json:"oldest_pending_at"`
	LastSeen      time.Time `json:"last_seen_at"`
	IngestLag     *int64    `json:"ingest_lag"`
	Replay        replay    `json:"replay"`
}

type counts struct {
	Pending  int64 `json:"PENDING"`
	Retrying int64 `json:"RETRYING"`
	Resolved int64 `json:"RESOLVED"`
	Dead     int64 `json:"DEAD"`
}

// Open returns how many messages need attention.
func (n counts) Open() int64 { return n.Pending + n.Retrying + n.Dead }

func (n *counts) add(m counts) {
	n.Pending += m.Pending
	n.Retrying += m.Retrying
	n.Resolved += m.Resolved
	n.Dead += m.Dead
}

type replay struct {
	Possible bool            `json:"possible"`
	Reason   string          `json:"reason"`
	Class    string          `json:"class"`
	Groups   []consumerGroup `json:"consumer_groups"`
}

// consumerGroup is a consumer group of a topic. Its state is running, behind, absent or unknown.
type consumerGroup struct {
	Group string `json:"group"`
	State string `json:"state"`
	Lag   *int64 `json:"lag"`
}

type advice struct {
	Good bool // trying a retry is reasonable
	Text string
}

// advise summarizes what is known of a topic. returned is the number of messages that failed again in the last hour.
func (t topicState) advise(now time.Time, returned int64) advice {
	switch {
	case !t.Replay.Possible:
		return advice{Text: "cannot be sent back: " + t.Replay.Reason}
	case t.nobodyReads():
		return advice{Text: "no consumer reads this topic now"}
	case returned > 0:
		return advice{Text: plural(returned, "replay", "replays") + " failed again in the last hour: find the cause first"}
	case now.Sub(t.LastSeen) < stillArriving:
		return advice{Text: "still failing: find the cause first"}
	case t.Counts.Pending > 0:
		return advice{Good: true, Text: "nothing new for " + rough(now.Sub(t.LastSeen)) + ": try one"}
	case t.Counts.Dead > 0:
		return advice{Good: true, Text: "all dead: requeue those to try again"}
	default:
		return advice{Good: true, Text: "under way"}
	}
}

func (t topicState) nobodyReads() bool {
	reads := func(g consumerGroup) bool { return g.State != "absent" }
	return len(t.Replay.Groups) > 0 && !slices.ContainsFunc(t.Replay.Groups, reads)
}

// moreTopics limits how many pages of 1,000 topics are read: 5,000 topics.
const moreTopics = 5

func (c *Console) allTopics(r *http.Request) ([]topicState, error) {
	var all []topicState
	query := url.Values{"limit": {"1000"}}
	for range moreTopics {
		var answer listAnswer
		if err := c.api.get(r, endpoint("topics"), query, &answer); err != nil {
			return nil, err
		}
		all = append(all, answer.Topics...)
		if answer.Next == "" {
			break
		}
		query.Set("cursor", answer.Next)
	}
	return all, nil
}

type topicsPage struct {
	Topics  []topicState
	Unknown int64  // messages of unknown origin; they are on the first page
	First   string // first page; "" on it
	Older   string // next page; "" on the last
}

const topicsOnPage = "100"

func (c *Console) listTopics(w http.ResponseWriter, r *http.Request) error {
	query := queryOf("limit", topicsOnPage, "cursor", r.URL.Query().Get("cursor"))
	var data topicsPage
	if query.Has("cursor") {
		data.First = "/topics"
	}
	var answer listAnswer
	if err := c.api.get(r, endpoint("topics"), query, &answer); err != nil {
		return err
	}
	data.Topics = answer.Topics
	if answer.Next != "" {
		data.Older = to("/topics", "cursor", answer.Next)
	}
	for _, t := range answer.Topics {
		if t.Topic == "" {
			data.Unknown = t.Total
		}
	}
	return c.render(w, r, http.StatusOK, "topics", page{Title: "Topics", Nav: "/topics", Data: data})
}
