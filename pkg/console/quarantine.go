package console

import (
	"encoding/json"
	"net/http"
	"net/url"
	"time"
)

const quarantinePath = "/quarantine"

// quarantined is a record that the database refused to store.
type quarantined struct {
	ID           string          `json:"id"`
	DLQTopic     string          `json:"dlq_topic"`
	DLQPartition int32           `json:"dlq_partition"`
	DLQOffset    int64           `json:"dlq_offset"`
	SQLState     string          `json:"sqlstate"`
	Error        string          `json:"error"`
	FirstTry     time.Time       `json:"first_try"`
	LastTry      time.Time       `json:"last_try"`
	Tries        int             `json:"tries"`
	RetryAt      time.Time       `json:"retry_at"`
	Key          *blob           `json:"key"`
	Payload      json.RawMessage `json:"payload"`
	PayloadSize  *int64          `json:"payload_size"`

	WhyNoRetry, WhyNoDelete string // empty: it can be done
}

// quarantinePage is a part of the list.
type quarantinePage struct {
	Records []quarantined `json:"records"`
	Next    string        `json:"next_cursor"`
	Topic   string
	Older   string // address of the next part; empty: there is none
}

// listQuarantine answers with the records that the database refused.
func (c *Console) listQuarantine(w http.ResponseWriter, r *http.Request) error {
	return c.quarantineAgain(w, r, http.StatusOK, nil)
}

func (c *Console) quarantineAgain(w http.ResponseWriter, r *http.Request, status int, problem *failure) error {
	asked := url.Values{"limit": {"25"}}
	data := quarantinePage{Topic: r.URL.Query().Get("topic")}
	if data.Topic != "" {
		asked.Set("topic", data.Topic)
	}
	if cursor := r.URL.Query().Get("cursor"); cursor != "" {
		asked.Set("cursor", cursor)
	}
	if err := c.api.get(r, endpoint("quarantine"), asked, &data); err != nil {
		return err
	}
	v := viewerOf(r)
	for i := range data.Records {
		q := &data.Records[i]
		q.WhyNoRetry, q.WhyNoDelete = v.Why("operator", q.DLQTopic), v.Why("admin", q.DLQTopic)
	}
	if data.Next != "" {
		data.Older = to(quarantinePath, "topic", data.Topic, "cursor", data.Next)
	}
	return c.render(w, r, status, "quarantine", page{Title: "Quarantine", Nav: "/", Problem: problem, Data: data})
}

// retryQuarantined has a record tried now.
func (c *Console) retryQuarantined(w http.ResponseWriter, r *http.Request) error {
	return c.onQuarantined(w, r, http.MethodPost, endpoint("quarantine", r.PathValue("id"), "retry"), "trying")
}

// deleteQuarantined removes a record for good.
func (c *Console) deleteQuarantined(w http.ResponseWriter, r *http.Request) error {
	return c.onQuarantined(w, r, http.MethodDelete, endpoint("quarantine", r.PathValue("id")), "record-deleted")
}

func (c *Console) onQuarantined(w http.ResponseWriter, r *http.Request, method, path, sentence string) error {
	if err := c.api.send(r, method, path, reasoned(r), nil); err != nil {
		problem, other := problemOf(err)
		if other != nil {
			return other
		}
		status, _ := describe(err)
		return c.quarantineAgain(w, r, status, problem)
	}
	return seeDone(w, r, sentence, quarantinePath)
}

// anyQuarantined reports whether the viewer sees a record in quarantine.
func (c *Console) anyQuarantined(r *http.Request) (bool, error) {
	var list quarantinePage
	err := c.api.get(r, endpoint("quarantine"), url.Values{"limit": {"1"}}, &list)
	return len(list.Records) > 0, err
}
