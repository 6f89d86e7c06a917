package ingest

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Fingerprinter tells which failures have the same cause. It is safe for concurrent
// use.
type Fingerprinter interface {
	Of(class, message, stack string) entity.Fingerprint
}

const (
	// fingerprintsKept bounds what is remembered; beyond it, some are noted again.
	fingerprintsKept = 10_000

	// noteAgain is after what time a fingerprint is noted once more: the store may
	// have forgotten a group of which nothing was left.
	noteAgain = time.Hour
)

// cause is what a fingerprint is made of.
type cause struct{ class, message, stack string }

// grouping gives the messages of one batch their error groups. Most of a batch
// failed alike, so a fingerprint is made once for all that said the same.
type grouping struct {
	maker Fingerprinter // nil: there are no groups
	known map[cause]uuid.UUID
	found map[uuid.UUID]entity.Fingerprint
}

func newGrouping(maker Fingerprinter) *grouping {
	return &grouping{maker: maker, known: map[cause]uuid.UUID{}, found: map[uuid.UUID]entity.Fingerprint{}}
}

// group returns the error group of a message; uuid.Nil where there are none.
func (g *grouping) group(m *entity.Message) uuid.UUID {
	if g.maker == nil {
		return uuid.Nil
	}
	said := cause{m.Failure.Class, m.ErrorMessage, m.Failure.StackTrace}
	id, ok := g.known[said]
	if !ok {
		made := g.maker.Of(said.class, said.message, said.stack)
		id = made.ID()
		g.known[said], g.found[id] = id, made
	}
	return id
}

// fingerprints are those that this process has noted. It is safe for concurrent
// use.
type fingerprints struct {
	mu    sync.Mutex
	noted map[uuid.UUID]time.Time // when
}

// unknown returns those of found that were not noted lately, each once and in the order
// of their ids: two writers that note the same must not wait for one another.
func (f *fingerprints) unknown(found map[uuid.UUID]entity.Fingerprint) (ids []uuid.UUID, fresh []entity.Fingerprint) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id := range found {
		if at, ok := f.noted[id]; !ok || time.Since(at) >= noteAgain {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	for _, id := range ids {
		fresh = append(fresh, found[id])
	}
	return ids, fresh
}

func (f *fingerprints) remember(ids []uuid.UUID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.noted == nil || len(f.noted)+len(ids) > fingerprintsKept {
		f.noted = make(map[uuid.UUID]time.Time, len(ids))
	}
	now := time.Now()
	for _, id := range ids {
		f.noted[id] = now
	}
}

// noteFingerprints has the store remember what the groups of a batch are called. The
// batch may be stored only then: its messages name them. The error is that ctx
// ended.
func (i *Ingester) noteFingerprints(ctx context.Context, found map[uuid.UUID]entity.Fingerprint) error {
	ids, fresh := i.fingerprints.unknown(found)
	if len(fresh) == 0 {
		return nil
	}
	_, err := untilStored(ctx, i, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, i.store.NoteFingerprints(ctx, fresh)
	})
	if err == nil {
		i.fingerprints.remember(ids)
	}
	return err
}
