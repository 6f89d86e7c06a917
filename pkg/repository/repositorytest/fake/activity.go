package fake

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// active names what is counted together: an original topic and a step of time.
type active struct {
	topic string
	step  time.Duration
	at    time.Time
}

// arrivals is how many messages came, and how many of them came back.
type arrivals struct{ arrived, returned int64 }

var arrivalsLives = map[time.Duration]time.Duration{
	repository.FineArrivalsStep: repository.FineArrivalsLife,
	repository.ArrivalsStep:     repository.ArrivalsLife,
}

// forgetActivity forgets what came long ago.
func (s *Store) forgetActivity(now time.Time) {
	for a := range s.activity {
		if a.at.Before(now.Add(-arrivalsLives[a.step])) {
			delete(s.activity, a)
		}
	}
}

// count notes that a message came, unless that was long ago.
func (s *Store) count(now time.Time, r *row) {
	m := &r.message
	if !m.CreatedAt.Before(now.Add(24 * time.Hour)) {
		return
	}
	for step, life := range arrivalsLives {
		a := active{m.OriginalTopic, step, m.CreatedAt.UTC().Truncate(step)}
		if a.at.Before(now.Add(-life)) {
			continue
		}
		came := s.activity[a]
		came.arrived++
		if m.Parent != uuid.Nil {
			came.returned++
		}
		s.activity[a] = came
	}
}

// Arrivals implements repository.Activity.
func (s *Store) Arrivals(ctx context.Context, q repository.ArrivalsQuery) (repository.Arrivals, error) {
	came := repository.Arrivals{Points: q.Empty()}
	err := s.step(ctx, "count arrivals", func(now time.Time) error {
		came.Until = s.cataloguedUntil(now)
		for a, n := range s.activity {
			seen := q.Visible == nil || a.topic != "" && q.Visible.Match(a.topic)
			fine := a.step < repository.ArrivalsStep
			if seen && fine == q.Fine() && (q.Topic == "" || a.topic == q.Topic) {
				q.Add(came.Points, a.at, n.arrived, n.returned)
			}
		}
		return nil
	})
	return came, err
}
