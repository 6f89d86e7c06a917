package engine

import (
	"context"
	"errors"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/opensearch"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

const (
	// searchTime is the time after which a page asks for no further messages. The page ends at the message that the search
	// has reached.
	searchTime = time.Second
	// countTime is the time after which a count counts no further messages.
	countTime = 5 * time.Second
	// firstFound and maxFound are the numbers of messages that are asked for at once: first, and at most.
	firstFound = 200
	maxFound   = 5000
	// exportedAtOnce is the number of messages of an export that are read together.
	exportedAtOnce = 1000
	// maxSorted is the number of matching documents up to which messages can be sorted by their last retry.
	maxSorted = 100_000
)

// Reads are the searches of the store.
type Reads interface {
	repository.Searcher
	IndexedUntil(ctx context.Context) (time.Time, error)
}

// Searches implements repository.Searcher. Filters that do not need the search index are answered by the store alone.
type Searches struct {
	Reads
	engine *Engine
	now    func() time.Time
}

// NewSearches returns the Searches of a store, or of its replica.
func (e *Engine) NewSearches(store Reads) *Searches {
	return &Searches{Reads: store, engine: e, now: time.Now}
}

// Search implements repository.Searcher.
func (s *Searches) Search(ctx context.Context, q repository.SearchQuery) (repository.SearchPage, error) {
	question, serves, err := s.engine.ask(ctx, q.Filter, q.Archived)
	switch {
	case err != nil:
		return repository.SearchPage{}, err
	case !serves:
		return s.Reads.Search(ctx, q)
	case question.nothing || q.Limit < 1:
		return repository.SearchPage{}, nil
	case q.Sort.By != repository.ByCreated: // documents have no other time than created_at
		return s.sorted(ctx, question, q)
	}
	return s.page(ctx, question, q)
}

// page fills a page with the found messages that the store confirms. It searches one period after the other: a common
// word fills the page from the newest period, so OpenSearch need not look at the indexes of all other days.
func (s *Searches) page(ctx context.Context, question question, q repository.SearchQuery) (page repository.SearchPage, err error) {
	deadline := s.now().Add(searchTime)
	part := opensearch.Page{Ascending: q.Sort.Ascending, After: q.After, Limit: min(max(firstFound, q.Limit), maxFound)}
	reached, reads := q.After, 0 // position up to which everything was searched; reads of the store that returned messages
	for _, p := range periods(q, s.now()) {
		question.Filter.CreatedAfter, question.Filter.CreatedBefore = p.from, p.before
		for more := true; more; part.Limit = min(2*part.Limit, maxFound) {
			found, err := s.engine.documents.Find(ctx, question.state.Version, question.Query, part)
			if errors.Is(err, repository.ErrEngineLate) && reached != q.After {
				page.Next = reached
				return s.load(ctx, q, page, reads)
			}
			if err != nil {
				return page, err
			}
			if len(found) > 0 {
				confirmed, err := s.Reads.Search(ctx, repository.SearchQuery{
					Filter: joined(q.Filter, found), Archived: q.Archived, Sort: q.Sort, Limit: q.Limit - len(page.Messages),
					NoValues: q.NoValues || reads > 0, // values of a page that is found in several parts are read by load
				})
				if err != nil {
					return page, err
				}
				if len(confirmed.Messages) > 0 {
					reads++
				}
				page.Messages = append(page.Messages, confirmed.Messages...)
				part.After = found[len(found)-1]
				reached = part.After
			}
			more = len(found) == part.Limit
			if !more && !p.last {
				reached = repository.Cursor{CreatedAt: p.from} // before it in the order are all messages of the period
			}
			full := len(page.Messages) >= q.Limit
			if !full && s.now().After(deadline) && (more || !p.last) {
				page.Next = reached
			}
			if full || page.Next != (repository.Cursor{}) {
				return s.load(ctx, q, page, reads)
			}
		}
	}
	return s.load(ctx, q, page, reads)
}

// spans are the lengths of the periods that a page searches before it searches all other messages, measured from the end
// of the first period. There is one index for each day.
var spans = []time.Duration{24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour}

// period is a part of the time in which messages were created. The zero time is no limit.
type period struct {
	from, before time.Time
	last         bool
}

// periods divides the time of a page's filter into periods, the newest first. The oldest messages first are searched in
// one period, because it is not known when the first message was created.
func periods(q repository.SearchQuery, now time.Time) (all []period) {
	from, before, end := q.Filter.CreatedAfter, q.Filter.CreatedBefore, now
	for _, limit := range []time.Time{before, q.After.CreatedAt} {
		if !limit.IsZero() && limit.Before(end) {
			end = limit
		}
	}
	for _, span := range spans {
		begin := end.Add(-span).Truncate(time.Microsecond)
		if q.Sort.Ascending || !begin.After(from) {
			break
		}
		all = append(all, period{from: begin, before: before})
		before = begin
	}
	return append(all, period{from: from, before: before, last: true})
}

// load reads the messages of a page that came from several reads of the store again, with their values: the bytes of a
// page are limited only when they are read together.
func (s *Searches) load(ctx context.Context, q repository.SearchQuery, page repository.SearchPage, reads int) (repository.SearchPage, error) {
	if reads < 2 || q.NoValues {
		return page, nil
	}
	found := make([]repository.Cursor, len(page.Messages))
	for i, m := range page.Messages {
		found[i] = repository.Cursor{CreatedAt: m.CreatedAt, ID: m.ID}
	}
	loaded, err := s.Reads.Search(ctx, repository.SearchQuery{Filter: joined(q.Filter, found), Archived: q.Archived, Sort: q.Sort, Limit: q.Limit})
	if len(loaded.Messages) < len(found) && len(found) == q.Limit {
		loaded.Next = found[len(found)-1] // some of the found messages have changed meanwhile, and further messages may follow
	} else {
		loaded.Next = page.Next
	}
	return loaded, err
}

// sorted returns a page that is sorted by the last retry.
func (s *Searches) sorted(ctx context.Context, question question, q repository.SearchQuery) (repository.SearchPage, error) {
	var found []repository.Cursor
	err := s.engine.each(ctx, question, maxSorted, func(some []repository.Cursor) { found = append(found, some...) })
	if err != nil || len(found) == 0 {
		return repository.SearchPage{}, err
	}
	q.Filter = joined(q.Filter, found)
	return s.Reads.Search(ctx, q)
}

// each calls yield for all found messages, some of them at once. For more than limit it returns a
// *repository.TooBroadError.
func (e *Engine) each(ctx context.Context, q question, limit int, yield func([]repository.Cursor)) error {
	n := 0
	return e.documents.FindAll(ctx, q.state.Version, q.Query, opensearch.Page{Limit: maxFound}, func(found []repository.Cursor) error {
		if n += len(found); n > limit {
			return &repository.TooBroadError{}
		}
		yield(found)
		return nil
	})
}

// errEnough ends a search that needs no further messages.
var errEnough = errors.New("enough messages were found")

// Export implements repository.Searcher. The search engine finds the messages at one point in time; the store decides
// about each of them when it is exported.
func (s *Searches) Export(ctx context.Context, q repository.ExportQuery, yield func(*entity.Message) error) error {
	question, serves, err := s.engine.ask(ctx, q.Filter, q.Archived)
	switch {
	case err != nil:
		return err
	case !serves:
		return s.Reads.Export(ctx, q, yield)
	case question.nothing || q.Limit < 1:
		return nil
	}
	left := q.Limit
	err = s.engine.documents.FindAll(ctx, question.state.Version, question.Query, opensearch.Page{Limit: exportedAtOnce}, func(found []repository.Cursor) error {
		part := q
		part.Filter, part.Limit = joined(q.Filter, found), left
		err := s.Reads.Export(ctx, part, func(m *entity.Message) error {
			left--
			return yield(m)
		})
		if err == nil && left <= 0 {
			return errEnough
		}
		return err
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// CountMatching implements repository.Searcher. An exact count asks the store about each message that was found. When
// that takes too long, and for an estimate, it returns the number of documents, unless the caller may not see all topics
// or documents lack a field for which the filter asks.
func (s *Searches) CountMatching(ctx context.Context, q repository.CountQuery) (repository.MatchCount, error) {
	question, serves, err := s.engine.ask(ctx, q.Filter, q.Archived)
	switch {
	case err != nil:
		return repository.MatchCount{}, err
	case !serves:
		return s.Reads.CountMatching(ctx, q)
	case question.nothing:
		return repository.MatchCount{Exact: true}, nil
	}
	estimated := q.Filter.Visible == nil && s.engine.canTell(q.Filter)
	if estimated && q.How == repository.CountEstimate {
		return s.estimate(ctx, question)
	}
	count, err := s.count(ctx, question, q)
	switch {
	case errors.Is(err, errEnough) && estimated:
		return s.estimate(ctx, question)
	case errors.Is(err, errEnough) || errors.Is(err, repository.ErrEngineLate):
		if q.Filter.Visible != nil {
			count = min(count, repository.CountLimit)
		}
		return repository.MatchCount{Messages: count, AtLeast: true}, nil
	}
	if q.Filter.Visible != nil {
		return repository.LimitedCount(count), err
	}
	return repository.MatchCount{Messages: count, Exact: true}, err
}

func (s *Searches) estimate(ctx context.Context, question question) (repository.MatchCount, error) {
	question.Certain = true
	n, err := s.engine.documents.Count(ctx, question.state.Version, question.Query)
	if errors.Is(err, repository.ErrEngineLate) {
		return repository.MatchCount{AtLeast: true}, nil
	}
	return repository.MatchCount{Messages: n}, err
}

func (s *Searches) count(ctx context.Context, question question, q repository.CountQuery) (count int64, err error) {
	deadline := s.now().Add(countTime)
	return count, s.engine.documents.FindAll(ctx, question.state.Version, question.Query, opensearch.Page{Limit: maxFound}, func(found []repository.Cursor) error {
		part, err := s.Reads.CountMatching(ctx, repository.CountQuery{Filter: joined(q.Filter, found), Archived: q.Archived, How: repository.CountExact})
		if err != nil {
			return err
		}
		count += part.Messages
		if !part.Exact || q.Filter.Visible != nil && count > repository.CountLimit || s.now().After(deadline) {
			return errEnough
		}
		return nil
	})
}
