package groups

import (
	"net/http"
	"net/url"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/access"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/request"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
	"github.com/dlq-manager/dlq-manager/pkg/rest/wire"
)

type timeRange struct{ whole, step time.Duration }

var (
	timeRanges = map[string]timeRange{
		"hour": {time.Hour, repository.FineArrivalsStep},
		"day":  {24 * time.Hour, repository.ArrivalsStep},
		"week": {7 * 24 * time.Hour, repository.ArrivalsStep},
	}
	timeRangeNames = []string{"hour", "day", "week"}
)

const defaultTimeRange = "day"

// Activity answers with the number of arrivals.
type Activity struct {
	Database repository.Activity
	Now      func() time.Time
}

// Get sends the number of arrivals over a range of time.
func (h Activity) Get(w http.ResponseWriter, r *http.Request) error {
	name, q, err := h.read(r.URL.Query())
	if err != nil {
		return err
	}
	q.Visible = access.Principal(r).Scope(auth.Viewer)
	arrivals, err := h.Database.Arrivals(r.Context(), q)
	if err != nil {
		return err
	}
	respond.JSON(w, http.StatusOK, wire.NewActivity(name, q.Step, arrivals))
	return nil
}

// read reads the query, and reports every problem. The last step is the current one.
func (h Activity) read(query url.Values) (name string, q repository.ArrivalsQuery, err error) {
	var p request.Problems
	name, err = request.Word(query, "span", timeRangeNames)
	p.Add(err)
	q.Topic, err = request.Text(query, "topic")
	p.Add(err)
	if err == nil && query.Has("topic") && (q.Topic == "" || !request.PossibleTopic(q.Topic)) {
		p.Add(&entity.FieldError{Field: "topic", Reason: "must be the name of an original topic"})
	}
	if name == "" {
		name = defaultTimeRange
	}
	asked := timeRanges[name]
	q.Step = asked.step
	q.Until = h.Now().UTC().Truncate(q.Step).Add(q.Step)
	q.Since = q.Until.Add(-asked.whole)
	return name, q, p.Err()
}
