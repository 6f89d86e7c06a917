package admin

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/link"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/request"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/session"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/view"
)

// Quarantine is the page of the records that PostgreSQL refuses to store.
type Quarantine struct {
	API      api.Client
	Renderer *view.Renderer
}

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
	Key          *api.Blob       `json:"key"`
	Payload      json.RawMessage `json:"payload"`
	PayloadSize  *int64          `json:"payload_size"`

	WhyNoRetry, WhyNoDelete string // the reasons why the action is not possible; "": it is possible
}

type quarantinePage struct {
	Records []quarantined `json:"records"`
	Next    string        `json:"next_cursor"`
	Topic   string
	Older   string // address of the next page; empty on the last
}

// Show lists the records.
func (q *Quarantine) Show(w http.ResponseWriter, r *http.Request) error {
	given := r.URL.Query()
	data := quarantinePage{Topic: given.Get("topic")}
	asked := link.Query("limit", "25", "topic", data.Topic, "cursor", given.Get("cursor"))
	if err := q.API.Get(r, api.Endpoint("quarantine"), asked, &data); err != nil {
		return err
	}
	v := session.ViewerOf(r)
	for i := range data.Records {
		record := &data.Records[i]
		record.WhyNoRetry, record.WhyNoDelete = v.Why("operator", record.DLQTopic), v.Why("admin", record.DLQTopic)
	}
	if data.Next != "" {
		data.Older = link.To(link.Quarantine, "topic", data.Topic, "cursor", data.Next)
	}
	return q.Renderer.Render(w, r, http.StatusOK, "quarantine", view.Page{Title: "Quarantine", Nav: "/", Data: data})
}

// Act returns a handler that sends a request about a quarantined record to the API. After success the page shows the
// sentence of view.Done whose code is in the parameter sentence.
func (q *Quarantine) Act(method, sentence string, what ...string) view.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		path := api.Endpoint(append([]string{"quarantine", r.PathValue("id")}, what...)...)
		err := q.API.Send(r, method, path, request.Body(r), nil)
		if err == nil {
			return view.RedirectDone(w, r, sentence, link.Quarantine)
		}
		return view.Answered(err, func(problem *view.Problem) error { return q.Renderer.ShowAgain(w, r, problem) })
	}
}
