package rest

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

const defaultSearchLimit = 50

// earliestRetry is before every retry that there ever was.
var earliestRetry = time.Unix(0, 0).UTC()

// The orders of messages and the ways to count them, by their names.
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

type countJSON struct {
	Messages int64 `json:"messages"`
	Exact    bool  `json:"exact"`
	AtLeast  bool  `json:"at_least,omitempty"` // there may be more
}

type search struct {
	listing
	query    repository.SearchQuery
	count    string
	view     view
	archived bool
}

func (s *Server) search(archived bool) handler {
	return func(w http.ResponseWriter, r *http.Request) error { return s.sendFound(w, r, archived) }
}

func (s *Server) sendFound(w http.ResponseWriter, r *http.Request, archived bool) error {
	q, err := s.searchOf(r, archived)
	if err != nil {
		return err
	}
	searched, err := s.askSearched(r.Context(), q.query.Filter)
	if err != nil {
		return err
	}
	page, err := s.db.Search(r.Context(), q.query)
	if err != nil {
		return tooBroad(err)
	}
	found, err := s.foundOf(r.Context(), q, searched)
	if err != nil {
		return err
	}
	messages, cursor := part(q.listing, page.Messages, func(last entity.Message) []byte {
		if q.query.Sort.By == repository.ByLastRetry {
			return timePlace(last.LastRetryAt, last.ID)
		}
		return timePlace(last.CreatedAt, last.ID)
	})
	if found.NextCursor = cursor; page.Next != (repository.Cursor{}) {
		next := q.cursor(timePlace(page.Next.CreatedAt, page.Next.ID))
		found.NextCursor, found.SearchedBackTo = &next, stamp(page.Next.CreatedAt)
	}
	s.writeMessages(w, messages, q.view, found)
	return nil
}

func (s *Server) searchOf(r *http.Request, archived bool) (search, error) {
	var p problems
	values := r.URL.Query()
	filter := filterOf(r, &p)
	sort, err := wordParameter(values, "sort", sortNames)
	p.note(err)
	count, err := wordParameter(values, "count", countNames)
	p.note(err)
	unmask, err := boolParameter(values, "unmask")
	p.note(err)
	omit, err := wordParameter(values, "omit", omittable)
	p.note(err)
	narrowing := slices.Concat(filterTexts, filterLists, []string{"sort"})
	l, err := s.listingOf(r, placeSize, defaultSearchLimit, narrowing...)
	p.note(err)
	if err := joined(p); err != nil {
		return search{}, err
	}
	if filter.Visible, err = s.searchable(r, filter, ""); err != nil {
		return search{}, err
	}
	v, err := s.viewOf(r, unmask)
	v.limit, v.archived, v.noValues = maxListPayload, archived, omit == omitPayload
	q := repository.SearchQuery{
		Filter: filter, Archived: archived, Sort: sorts[sort], After: l.before(), Limit: l.limit + 1, NoValues: v.noValues,
	}
	return search{l, q, count, v, archived}, err
}

type foundJSON struct {
	NextCursor    *string    `json:"next_cursor"`
	Count         *countJSON `json:"count"`
	SearchedUntil *string    `json:"searched_until"`
	// SearchedBackTo is where the search ended because its time was over; nil when it did not.
	SearchedBackTo *string `json:"searched_back_to"`
}

func (s *Server) foundOf(ctx context.Context, q search, searched searchedUntil) (found foundJSON, err error) {
	found.SearchedUntil = searched.show()
	if q.count == "" || q.count == countNone {
		return found, nil
	}
	how := repository.CountEstimate
	if q.count == countExact {
		how = repository.CountExact
	}
	filter := q.query.Filter
	if q.query.Sort.By == repository.ByLastRetry && filter.RetriedAfter.IsZero() {
		filter.RetriedAfter = earliestRetry // the list leaves out what was never retried
	}
	n, err := s.db.CountMatching(ctx, repository.CountQuery{Filter: filter, Archived: q.archived, How: how})
	if n.Exact && filter.Visible != nil {
		n = repository.LimitedCount(n.Messages)
	}
	exact := n.Exact && searched.complete()
	found.Count = &countJSON{n.Messages, exact, n.AtLeast || n.Exact && !exact}
	return found, tooBroad(err)
}

// tooBroad names the parameters that a question is too wide in.
func tooBroad(err error) error {
	var broad *repository.TooBroadError
	if !errors.As(err, &broad) {
		return err
	}
	return refused(entity.ErrInvalid, broad.Error(), detail{"filter", strings.TrimPrefix(broad.Error(), "the filter ")})
}

// wholePage is how many bytes of a page are sent at once.
const wholePage = 128 << 10

// pageBuffers are kept from one page for the next, which is as large.
var pageBuffers = sync.Pool{New: func() any { return new(make([]byte, 0, 32<<10)) }}

// writeMessages sends a small page at once, and a large one in pieces: payloads need not be in memory twice.
func (s *Server) writeMessages(w http.ResponseWriter, messages []entity.Message, v view, tail any) {
	buffer, buf := pageBuffer()
	buf, begun := append(buf, `{"messages":[`...), false
	for i := range messages {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = s.appendMessage(buf, &messages[i], v)
		if len(buf) < wholePage {
			continue
		}
		if !begun {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusOK)
			begun = true
		}
		if _, err := w.Write(buf); err != nil {
			return // the client is gone
		}
		buf = buf[:0]
	}
	buf = append(buf, "],"...)
	buf = append(buf, encode(tail)[1:]...)
	if begun {
		_, _ = w.Write(buf)
	} else {
		writeBody(w, http.StatusOK, "application/json", buf)
	}
	keepBuffer(buffer, buf)
}

// pageBuffer returns an empty buffer, and where it is kept.
func pageBuffer() (buffer *[]byte, buf []byte) {
	buffer = pageBuffers.Get().(*[]byte) //nolint:forcetypeassert // there is nothing else in it
	return buffer, (*buffer)[:0]
}

// keepBuffer keeps a buffer, unless a large message was in it. It must not be used any more.
func keepBuffer(buffer *[]byte, buf []byte) {
	if cap(buf) <= 2*wholePage {
		*buffer = buf
		pageBuffers.Put(buffer)
	}
}
