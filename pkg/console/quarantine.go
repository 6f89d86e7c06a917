package console

import (
	"encoding/json"
	"net/http"
	"net/url"
	"time"
)

const quarantinePath = "/quarantine"

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

	WhyNoRetry, WhyNoDelete string // the reasons; empty: it can be done
}

type quarantinePage struct {
	Records []quarantined `json:"records"`
	Next    string        `json:"next_cursor"`
	Topic   string
	Older   string // address of the next page; empty on the last
}

func (c *Console) listQuarantine(w http.ResponseWriter, r *http.Request) error {
	return c.quarantineAgain(w, r, http.StatusOK, nil)
}

func (c *Console) quarantineAgain(w http.ResponseWriter, r *http.Request, status int, problem *failure) error {
	given := r.URL.Query()
	data := quarantinePage{Topic: given.Get("topic")}
	asked := queryOf("limit", "25", "topic", data.Topic, "cursor", given.Get("cursor"))
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

func (c *Console) orderQuarantined(method, sentence string, what ...string) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		path := endpoint(append([]string{"quarantine", r.PathValue("id")}, what...)...)
		err := c.api.send(r, method, path, reasoned(r), nil)
		if err == nil {
			return seeDone(w, r, sentence, quarantinePath)
		}
		status, problem, err := problemOf(err)
		if err != nil {
			return err
		}
		return c.quarantineAgain(w, r, status, problem)
	}
}

func (c *Console) anyQuarantined(r *http.Request) (bool, error) {
	var list quarantinePage
	err := c.api.get(r, endpoint("quarantine"), url.Values{"limit": {"1"}}, &list)
	return len(list.Records) > 0, err
}
