package rest

import (
	"context"
	"fmt"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

const (
	// searchSlack is how far the search catalogue may be behind for an answer to count
	// as whole. Its worker looks every two seconds when there is nothing to do.
	searchSlack = 10 * time.Second

	// searchLimit is how far it may be behind for anything to be done with all that
	// matches: what is left out silently would be taken for what does not match.
	searchLimit = time.Minute
)

// searchedUntil says how far the search catalogue was before a question was asked.
// The zero value is for questions that do not need it.
type searchedUntil struct {
	asked bool
	until time.Time // zero: it never was made
	lag   time.Duration
}

// askSearched has to be asked before the question itself: asked after it, the answer
// may promise what the question has not seen.
func (s *Server) askSearched(ctx context.Context, f entity.Filter) (searchedUntil, error) {
	if !f.Catalogued() {
		return searchedUntil{}, nil
	}
	until, err := s.db.CataloguedUntil(ctx)
	return searchedUntil{asked: true, until: until, lag: s.now().Sub(until)}, err
}

// show is null for a question that did not need the catalogue, and for a catalogue
// that never was made.
func (u searchedUntil) show() *string { return stamp(u.until) }

func (u searchedUntil) complete() bool { return !u.asked || u.lag <= searchSlack }

// tooLate is nil unless the catalogue is too far behind. field is the part of the
// request that needs it.
func (u searchedUntil) tooLate(field string) error {
	if !u.asked || u.lag <= searchLimit {
		return nil
	}
	reason := "the search catalogue is behind: it has nothing yet"
	if at := u.show(); at != nil {
		reason = "the search catalogue is behind: it has what came until " + *at
	}
	return &requestError{
		kind: entity.ErrUnavailable, text: fmt.Sprintf("%s (%s)", reason, field), details: []detail{{field, reason}},
	}
}
