package rest

import (
	"context"
	"fmt"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

const (
	// searchSlack is how far the search catalogue may be late for an answer to count as whole. Its worker polls
	// every two seconds.
	searchSlack = 10 * time.Second

	// searchLimit is how late it may be for exports and redrives, where a missing match is taken for no match.
	searchLimit = time.Minute
)

// searchedUntil is the state of the search catalogue before a question; zero for one that does not need it.
type searchedUntil struct {
	asked bool
	until time.Time // zero: it never was made
	lag   time.Duration
}

// askSearched must be called before the question: called after it, it may promise what the question has not
// seen.
func (s *Server) askSearched(ctx context.Context, f entity.Filter) (searchedUntil, error) {
	if !f.Catalogued() {
		return searchedUntil{}, nil
	}
	until, err := s.db.IndexedUntil(ctx)
	return searchedUntil{asked: true, until: until, lag: s.now().Sub(until)}, err
}

// show is null for a question without the catalogue, and for an empty catalogue.
func (u searchedUntil) show() *string  { return stamp(u.until) }
func (u searchedUntil) complete() bool { return !u.asked || u.lag <= searchSlack }

// tooLate is nil unless the catalogue is too late. field is the part of the request that needs it.
func (u searchedUntil) tooLate(field string) error {
	if !u.asked || u.lag <= searchLimit {
		return nil
	}
	reason := "the search catalogue is behind: it has nothing yet"
	if at := u.show(); at != nil {
		reason = "the search catalogue is behind: it has what came until " + *at
	}
	return refused(entity.ErrUnavailable, fmt.Sprintf("%s (%s)", reason, field), detail{field, reason})
}
