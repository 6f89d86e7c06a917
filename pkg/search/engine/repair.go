package engine

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/opensearch"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Repairs is what the store knows about the documents that the search engine should have.
type Repairs interface {
	EngineRange(ctx context.Context, before time.Time, limit int) (repository.EngineRange, error)
	EngineSum(ctx context.Context, version int64, r repository.EngineRange) (repository.EngineSum, error)
	EngineDocuments(ctx context.Context, version int64, r repository.EngineRange, after uuid.UUID, limit int) ([]uuid.UUID, error)
	IndexAgain(ctx context.Context, version int64, ids []uuid.UUID) error
	IndexRangeAgain(ctx context.Context, version int64, r repository.EngineRange) error
}

const (
	// repairInterval is the time between two comparisons of all documents.
	repairInterval = time.Hour
	// repairTime is the time after which a step compares no further range, so that messages are indexed meanwhile.
	repairTime = 500 * time.Millisecond
	// rangeDocuments is the number of documents of a range, by which statements and requests stay short.
	rangeDocuments = 20_000
	// comparedAtOnce is the number of ids that are compared together.
	comparedAtOnce = 5000
)

// comparison is how far the documents of the store and of the search engine were compared, the newest first.
type comparison struct {
	at     time.Time // when all documents were last compared; zero without the lease
	going  bool
	before time.Time // documents of messages that were created later were compared; zero: none
}

// repair compares which documents the store and the search engine have, by their number and a sum for each range, when it
// is due: after another process had the lease, and once an hour. Where they differ, messages are indexed again, or
// documents without a message are deleted. Each call compares some ranges, and the next one continues there.
func (x *Indexer) repair(ctx context.Context, v int64) error {
	c := &x.compared
	if !c.going {
		if !c.at.IsZero() && x.now().Sub(c.at) < repairInterval {
			return nil
		}
		x.writes.Forget()
		c.going, c.before = true, time.Time{}
	}
	for began := x.now(); x.now().Sub(began) < repairTime; {
		r, err := x.repairs.EngineRange(ctx, c.before, rangeDocuments)
		if err != nil {
			return err
		}
		if err := x.repairRange(ctx, v, r); err != nil {
			return err
		}
		if c.before = r.From; !r.From.IsZero() {
			continue
		}
		if err := x.writes.Tidy(ctx, v, false, x.now().AddDate(0, 0, -2)); err != nil {
			return err
		}
		c.going, c.at = false, x.now()
		return nil
	}
	return nil
}

func (x *Indexer) repairRange(ctx context.Context, v int64, r repository.EngineRange) error {
	want, err := x.repairs.EngineSum(ctx, v, r)
	if err != nil {
		return err
	}
	have, err := x.writes.Sum(ctx, v, r)
	switch {
	case err != nil || want == have:
		return err
	case have.Documents == 0:
		x.lost(want.Documents, r)
		return x.repairs.IndexRangeAgain(ctx, v, r)
	}
	for after, more := uuid.Nil, true; more; {
		want, err := x.repairs.EngineDocuments(ctx, v, r, after, comparedAtOnce)
		if err != nil {
			return err
		}
		found, err := x.writes.Documents(ctx, v, r, after, comparedAtOnce)
		if err != nil {
			return err
		}
		have := make([]uuid.UUID, len(found))
		for i, d := range found {
			have[i] = d.ID
		}
		if more = len(want) == comparedAtOnce || len(have) == comparedAtOnce; more {
			after = lastOf(want, have) // compare up to the last id to which both lists are complete
			want, have, found = upTo(want, after), upTo(have, after), found[:len(upTo(have, after))]
		}
		if lost := without(want, have); len(lost) > 0 {
			x.lost(int64(len(lost)), r)
			if err := x.repairs.IndexAgain(ctx, v, lost); err != nil {
				return err
			}
		}
		if err := x.deleteExtra(ctx, v, found, without(have, want)); err != nil {
			return err
		}
	}
	return nil
}

func (x *Indexer) lost(n int64, r repository.EngineRange) {
	x.metrics.repaired.Add(float64(n))
	x.log.Warn("the search engine has lost documents; their messages are indexed again", zap.Int64("documents", n), zap.Time("from", r.From), zap.Time("before", r.Before))
}

// deleteExtra deletes those of the found documents whose messages do not exist or have another day. The message of any
// other one waits to be indexed, which writes its document again.
func (x *Indexer) deleteExtra(ctx context.Context, v int64, found []repository.Cursor, extra []uuid.UUID) error {
	if len(extra) == 0 {
		return nil
	}
	known, err := x.factsOf(ctx, extra)
	if err != nil {
		return err
	}
	var gone []repository.Cursor
	for _, d := range found {
		if _, isExtra := slices.BinarySearchFunc(extra, d.ID, compare); !isExtra {
			continue
		}
		if f, exists := known[d.ID]; !exists || !opensearch.DayOf(f.CreatedAt).Equal(opensearch.DayOf(d.CreatedAt)) {
			gone = append(gone, d)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	x.metrics.repaired.Add(float64(len(gone)))
	x.log.Warn("the search engine had documents without a message; they are deleted", zap.Int("documents", len(gone)), zap.Time("day", opensearch.DayOf(gone[0].CreatedAt)))
	return x.writes.Delete(ctx, v, x.number, gone)
}

// lastOf returns the smallest of the last ids of those lists that have comparedAtOnce ids, and so may continue.
func lastOf(lists ...[]uuid.UUID) uuid.UUID {
	last := uuid.Max
	for _, list := range lists {
		if len(list) == comparedAtOnce && compare(list[len(list)-1], last) < 0 {
			last = list[len(list)-1]
		}
	}
	return last
}

func upTo(ids []uuid.UUID, last uuid.UUID) []uuid.UUID {
	n, found := slices.BinarySearchFunc(ids, last, compare)
	if found {
		n++
	}
	return ids[:n]
}

// without returns those ids of a that b does not contain. The lists a and b must be sorted.
func without(a, b []uuid.UUID) []uuid.UUID {
	return slices.DeleteFunc(slices.Clone(a), func(id uuid.UUID) bool {
		_, found := slices.BinarySearchFunc(b, id, compare)
		return found
	})
}

func compare(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) }
