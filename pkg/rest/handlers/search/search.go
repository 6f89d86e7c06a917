// Package search answers requests for many messages: pages of a topic, searches of live and archived messages, facets
// and exports. It also keeps the saved views. The caller has checked that the principal has the route's role on a
// topic; the answers contain only messages of the principal's topics.
package search

import (
	"context"
	"net/http"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/request"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/unmask"
	"github.com/dlq-manager/dlq-manager/pkg/rest/wire"
)

const defaultSearchLimit = 50

// earliestRetry is earlier than any retry, so a filter by it selects all messages that were ever retried.
var earliestRetry = time.Unix(0, 0).UTC()

// The orders and the ways to count, by their names in requests.
var (
	sorts = map[string]repository.Sort{
		"-created_at":    {},
		"created_at":     {Ascending: true},
		"-last_retry_at": {By: repository.ByLastRetry},
		"last_retry_at":  {By: repository.ByLastRetry, Ascending: true},
	}
	sortNames  = []string{"created_at", "-created_at", "last_retry_at", "-last_retry_at"}
	countNames = []string{countExact, countEstimate, countNone}
	omittable  = []string{omitPayload}
)

const (
	omitPayload   = "payload"
	countExact    = "exact"
	countEstimate = "estimate"
	countNone     = "none"
)

// Lists answers with pages of messages, live or archived.
type Lists struct {
	Store    Store
	Database Database // nil: the store is in memory
	Show     wire.Messages
	Unmask   unmask.Rules
	Cursors  request.Cursors
	Now      func() time.Time
}

// Store lists the messages of a topic.
type Store interface {
	List(ctx context.Context, topic string, page repository.Page) (repository.List, error)
}

// Database searches and counts messages.
type Database interface {
	Search(ctx context.Context, q repository.SearchQuery) (repository.SearchPage, error)
	CountMatching(ctx context.Context, q repository.CountQuery) (repository.MatchCount, error)
	request.Index
}

// query holds the options of a request for a search.
type query struct {
	request.List
	search   repository.SearchQuery
	count    string
	view     wire.View
	archived bool
}

// Search sends the live messages that match a filter.
func (h Lists) Search(w http.ResponseWriter, r *http.Request) error { return h.send(w, r, false) }

// SearchArchive sends the archived messages that match a filter.
func (h Lists) SearchArchive(w http.ResponseWriter, r *http.Request) error { return h.send(w, r, true) }

func (h Lists) send(w http.ResponseWriter, r *http.Request, archived bool) error {
	q, err := h.read(r, archived)
	if err != nil {
		return err
	}
	searched, err := request.QueryIndex(r.Context(), h.Database, h.Now, q.search.Filter)
	if err != nil {
		return err
	}
	page, err := h.Database.Search(r.Context(), q.search)
	if err != nil {
		return request.TooBroad(err)
	}
	found, err := h.end(r.Context(), q, searched)
	if err != nil {
		return err
	}
	messages, cursor := request.Part(q.List, page.Messages, func(last entity.Message) []byte {
		if q.search.Sort.By == repository.ByLastRetry {
			return request.TimePosition(last.LastRetryAt, last.ID)
		}
		return request.TimePosition(last.CreatedAt, last.ID)
	})
	if found.NextCursor = cursor; page.Next != (repository.Cursor{}) {
		next := q.Cursor(request.TimePosition(page.Next.CreatedAt, page.Next.ID))
		found.NextCursor, found.SearchedBackTo = &next, wire.Stamp(page.Next.CreatedAt)
	}
	respond.Messages(w, h.Show, messages, q.view, found)
	return nil
}

func (h Lists) read(r *http.Request, archived bool) (query, error) {
	var p request.Problems
	values := r.URL.Query()
	filter := request.ReadFilter(values, &p)
	sort, err := request.Word(values, "sort", sortNames)
	p.Add(err)
	count, err := request.Word(values, "count", countNames)
	p.Add(err)
	unmask, err := request.Bool(values, "unmask")
	p.Add(err)
	omit, err := request.Word(values, "omit", omittable)
	p.Add(err)
	narrowing := append(request.FilterParameters(), "sort")
	l, err := h.Cursors.List(r, request.TimeSize, defaultSearchLimit, narrowing...)
	p.Add(err)
	if err := p.Err(); err != nil {
		return query{}, err
	}
	if err = h.Unmask.Narrow(r, &filter); err != nil {
		return query{}, err
	}
	v, err := h.Unmask.View(r, unmask)
	v.Limit, v.Archived, v.NoValues = wire.MaxListPayload, archived, omit == omitPayload
	q := repository.SearchQuery{
		Filter: filter, Archived: archived, Sort: sorts[sort], After: l.Before(), Limit: l.Limit + 1, NoValues: v.NoValues,
	}
	return query{l, q, count, v, archived}, err
}

func (h Lists) end(ctx context.Context, q query, searched request.SearchedUntil) (found wire.SearchPage, err error) {
	found.SearchedUntil = searched.Show()
	if q.count == "" || q.count == countNone {
		return found, nil
	}
	how := repository.CountEstimate
	if q.count == countExact {
		how = repository.CountExact
	}
	filter := q.search.Filter
	if q.search.Sort.By == repository.ByLastRetry && filter.RetriedAfter.IsZero() {
		// A list by last_retry_at contains only messages that were retried, so only these may be counted.
		filter.RetriedAfter = earliestRetry
	}
	n, err := h.Database.CountMatching(ctx, repository.CountQuery{Filter: filter, Archived: q.archived, How: how})
	if n.Exact && filter.Visible != nil {
		n = repository.LimitedCount(n.Messages)
	}
	exact := n.Exact && searched.Complete()
	found.Count = &wire.Count{Messages: n.Messages, Exact: exact, AtLeast: n.AtLeast || n.Exact && !exact}
	return found, request.TooBroad(err)
}
