package rest

import (
	"net/http"
	"net/url"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

type span struct{ whole, step time.Duration }

var (
	spans = map[string]span{
		"hour": {time.Hour, repository.FineArrivalsStep},
		"day":  {24 * time.Hour, repository.ArrivalsStep},
		"week": {7 * 24 * time.Hour, repository.ArrivalsStep},
	}
	spanNames = []string{"hour", "day", "week"}
)

const defaultSpan = "day"

type activityJSON struct {
	Span         string      `json:"span"`
	StepSeconds  int64       `json:"step_seconds"`
	Points       []pointJSON `json:"points"`
	CountedUntil *string     `json:"counted_until"`
}

type pointJSON struct {
	At       *string `json:"at"`
	Arrived  int64   `json:"arrived"`
	Returned int64   `json:"returned"`
}

func (s *Server) getActivity(w http.ResponseWriter, r *http.Request) error {
	name, q, err := s.arrivalsOf(r.URL.Query())
	if err != nil {
		return err
	}
	q.Visible = principalOf(r).Scope(auth.Viewer)
	came, err := s.db.Arrivals(r.Context(), q)
	if err != nil {
		return err
	}
	points := each(came.Points, func(p repository.ArrivalsPoint) pointJSON {
		return pointJSON{stamp(p.At), p.Arrived, p.Returned}
	})
	writeJSON(w, http.StatusOK, activityJSON{name, int64(q.Step / time.Second), points, stamp(came.Until)})
	return nil
}

// arrivalsOf reads the query, and reports every problem. The last step is the current one.
func (s *Server) arrivalsOf(query url.Values) (name string, q repository.ArrivalsQuery, err error) {
	var p problems
	name, err = wordParameter(query, "span", spanNames)
	p.note(err)
	q.Topic, err = textParameter(query, "topic")
	p.note(err)
	if err == nil && query.Has("topic") && (q.Topic == "" || !possibleTopic(q.Topic)) {
		p.note(&entity.FieldError{Field: "topic", Reason: "must be the name of an original topic"})
	}
	if name == "" {
		name = defaultSpan
	}
	asked := spans[name]
	q.Step = asked.step
	q.Until = s.now().UTC().Truncate(q.Step).Add(q.Step)
	q.Since = q.Until.Add(-asked.whole)
	return name, q, joined(p)
}
