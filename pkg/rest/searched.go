package rest

import (
	"context"
	"fmt"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

const (
	// searchSlack is how late the search index may be for an answer to count as complete. The indexer polls every two
	// seconds.
	searchSlack = 10 * time.Second

	// searchLimit is how late it may be for exports and redrives, where a missing match would be taken for no match.
	searchLimit = time.Minute
)

// searchedUntil is the state of the search index before a query; zero for a query that does not use the index.
type searchedUntil struct {
	asked bool
	until time.Time // zero: never built
	lag   time.Duration
}

// askSearched must be called before the query: afterwards it could report a time that the query did not cover.
func (s *Server) askSearched(ctx context.Context, f entity.Filter) (searchedUntil, error) {
	if !f.Catalogued() {
		return searchedUntil{}, nil
	}
	until, err := s.db.CataloguedUntil(ctx)
	return searchedUntil{asked: true, until: until, lag: s.now().Sub(until)}, err
}

// show returns nil for a query that does not use the index, and for an empty index.
func (u searchedUntil) show() *string  { return stamp(u.until) }
func (u searchedUntil) complete() bool { return !u.asked || u.lag <= searchSlack }

// tooLate returns an error when the index is later than searchLimit. field is the part of the request that uses it.
func (u searchedUntil) tooLate(field string) error {
	if !u.asked || u.lag <= searchLimit {
		return nil
	}
	reason := "the search index is late: it is still empty"
	if at := u.show(); at != nil {
		reason = "the search index is late: it is complete until " + *at
	}
	return refused(entity.ErrUnavailable, fmt.Sprintf("%s (%s)", reason, field), detail{field, reason})
}
