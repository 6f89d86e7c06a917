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
	EngineDays(ctx context.Context, version int64) ([]repository.EngineDay, error)
	EngineDocuments(ctx context.Context, version int64, day time.Time, after uuid.UUID, limit int) ([]uuid.UUID, error)
	IndexAgain(ctx context.Context, version int64, ids []uuid.UUID) error
	IndexDayAgain(ctx context.Context, version int64, day time.Time) error
}

const (
	// repairInterval is the time between two comparisons of all days.
	repairInterval = time.Hour
	// comparedAtOnce is the number of ids that are compared together.
	comparedAtOnce = 5000
)

// repair compares which documents the store and the search engine have, by their number and a sum for each day, when it
// is due: after another process had the lease, and once an hour. Where they differ, messages are indexed again, or
// documents without a message are deleted.
func (x *Indexer) repair(ctx context.Context, v int64) error {
	if now := x.now(); !x.repaired.IsZero() && now.Sub(x.repaired) < repairInterval {
		return nil
	}
	x.writes.Forget()
	want, err := x.repairs.EngineDays(ctx, v)
	if err != nil {
		return err
	}
	have, err := x.writes.Days(ctx, v)
	if err != nil {
		return err
	}
	for _, d := range differing(want, have) {
		if err := x.repairDay(ctx, v, d); err != nil {
			return err
		}
	}
	if err := x.writes.Tidy(ctx, v, false, x.now().AddDate(0, 0, -2)); err != nil {
		return err
	}
	x.repaired = x.now()
	return nil
}

// difference is a day whose documents differ.
type difference struct{ want, have repository.EngineDay }

func differing(want, have []repository.EngineDay) []difference {
	all := map[time.Time]difference{}
	for _, w := range want {
		all[w.Day] = difference{want: w, have: repository.EngineDay{Day: w.Day}}
	}
	for _, h := range have {
		d := all[h.Day]
		d.want.Day, d.have = h.Day, h
		all[h.Day] = d
	}
	var found []difference
	for _, d := range all {
		if d.want != d.have {
			found = append(found, d)
		}
	}
	slices.SortFunc(found, func(a, b difference) int { return b.want.Day.Compare(a.want.Day) })
	return found
}

func (x *Indexer) repairDay(ctx context.Context, v int64, d difference) error {
	if d.have.Documents == 0 {
		x.lost(d.want.Documents, d.want.Day)
		return x.repairs.IndexDayAgain(ctx, v, d.want.Day)
	}
	var lost, extra []uuid.UUID
	for after := uuid.Nil; ; {
		want, err := x.repairs.EngineDocuments(ctx, v, d.want.Day, after, comparedAtOnce)
		if err != nil {
			return err
		}
		have, err := x.writes.IDs(ctx, v, d.want.Day, after, comparedAtOnce)
		if err != nil {
			return err
		}
		more := len(want) == comparedAtOnce || len(have) == comparedAtOnce
		if more { // compare up to the last id to which both lists are complete
			after = lastOf(want, have)
			want, have = upTo(want, after), upTo(have, after)
		}
		lost, extra = append(lost, without(want, have)...), append(extra, without(have, want)...)
		if !more {
			break
		}
	}
	if len(lost) > 0 {
		x.lost(int64(len(lost)), d.want.Day)
		if err := x.repairs.IndexAgain(ctx, v, lost); err != nil {
			return err
		}
	}
	return x.deleteExtra(ctx, v, d.have, extra)
}

func (x *Indexer) lost(n int64, day time.Time) {
	x.metrics.repaired.Add(float64(n))
	x.log.Warn("the search engine has lost documents; their messages are indexed again", zap.Int64("documents", n), zap.Time("day", day))
}

// deleteExtra deletes documents of a day whose messages do not exist or have another day. The message of any other one
// waits to be indexed, which writes its document again.
func (x *Indexer) deleteExtra(ctx context.Context, v int64, day repository.EngineDay, extra []uuid.UUID) error {
	for ids := range slices.Chunk(extra, comparedAtOnce) {
		known, err := x.factsOf(ctx, ids)
		if err != nil {
			return err
		}
		gone := slices.DeleteFunc(slices.Clone(ids), func(id uuid.UUID) bool {
			f, exists := known[id]
			return exists && opensearch.DayOf(f.CreatedAt).Equal(day.Day)
		})
		if len(gone) == 0 {
			continue
		}
		if err := x.writes.Delete(ctx, v, x.number, day, gone); err != nil {
			return err
		}
		x.metrics.repaired.Add(float64(len(gone)))
		x.log.Warn("the search engine had documents without a message; they are deleted", zap.Int("documents", len(gone)), zap.Time("day", day.Day))
	}
	return nil
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
