package request

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
	"github.com/dlq-manager/dlq-manager/pkg/rest/wire"
)

const (
	// searchSlack is how late the search index may be for an answer to count as complete. The indexer polls every two
	// seconds.
	searchSlack = 10 * time.Second

	// searchLimit is how late it may be for exports and redrives, where a missing match would be taken for no match.
	searchLimit = time.Minute
)

// Index is the search index.
type Index interface {
	CataloguedUntil(ctx context.Context) (time.Time, error)
}

// SearchedUntil is the state of the search index before a query; zero for a query that does not use the index.
type SearchedUntil struct {
	asked bool
	until time.Time // zero: never built
	lag   time.Duration
}

// QueryIndex must be called before the query: afterwards it could report a time that the query did not cover.
func QueryIndex(ctx context.Context, index Index, now func() time.Time, f entity.Filter) (SearchedUntil, error) {
	if !f.Catalogued() {
		return SearchedUntil{}, nil
	}
	until, err := index.CataloguedUntil(ctx)
	return SearchedUntil{asked: true, until: until, lag: now().Sub(until)}, err
}

// Show returns nil for a query that does not use the index, and for an empty index.
func (u SearchedUntil) Show() *string { return wire.Stamp(u.until) }

// Complete reports whether the query covers every message but the newest.
func (u SearchedUntil) Complete() bool { return !u.asked || u.lag <= searchSlack }

// TooLate returns an error when the index is later than searchLimit. field is the part of the request that uses it.
func (u SearchedUntil) TooLate(field string) error {
	if !u.asked || u.lag <= searchLimit {
		return nil
	}
	reason := "the search index is late: it is still empty"
	if at := u.Show(); at != nil {
		reason = "the search index is late: it is complete until " + *at
	}
	return respond.Refused(entity.ErrUnavailable, fmt.Sprintf("%s (%s)", reason, field), respond.Detail{Field: field, Reason: reason})
}

// TooBroad names the parameters whose conditions are too wide.
func TooBroad(err error) error {
	var broad *repository.TooBroadError
	if !errors.As(err, &broad) {
		return err
	}
	return respond.Refused(entity.ErrInvalid, broad.Error(), respond.Detail{Field: "filter", Reason: strings.TrimPrefix(broad.Error(), "the filter ")})
}
