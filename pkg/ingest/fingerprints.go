package ingest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/traces"
)

// Fingerprinter groups failures with the same cause. It is safe for concurrent use.
type Fingerprinter interface {
	Of(class, message, stack string) entity.Fingerprint
}

const (
	fingerprintsKept = 10_000    // limits the cache; beyond it, some are stored again
	noteAgain        = time.Hour // then a fingerprint is stored again: its empty group may be deleted
)

// cause is the input of a message's error group.
type cause struct{ topic, class, message, stack string }

// topicGroup is an error group of messages of a dead-letter topic.
type topicGroup struct {
	topic string
	group uuid.UUID
}

// grouping assigns error groups to messages, and computes one fingerprint for equal failures of a topic.
type grouping struct {
	maker Fingerprinter // nil: no error groups
	known map[cause]uuid.UUID
	found map[topicGroup]entity.Fingerprint
}

func newGrouping(maker Fingerprinter) *grouping {
	return &grouping{maker: maker, known: map[cause]uuid.UUID{}, found: map[topicGroup]entity.Fingerprint{}}
}

// group returns the error group of a message; uuid.Nil without error groups.
func (g *grouping) group(m *entity.Message) uuid.UUID {
	if g.maker == nil {
		return uuid.Nil
	}
	failure := cause{m.Source.Topic, m.Failure.Class, m.ErrorMessage, m.Failure.StackTrace}
	id, ok := g.known[failure]
	if !ok {
		made := g.maker.Of(failure.class, failure.message, failure.stack)
		id = made.ID()
		g.known[failure], g.found[topicGroup{failure.topic, id}] = id, made
	}
	return id
}

// fingerprints caches the error groups that the store has admitted from this process. It is safe for concurrent use.
type fingerprints struct {
	mu       sync.Mutex
	admitted map[uuid.UUID]time.Time // when
}

// unknown returns those of found that were not admitted within noteAgain, by topic and id.
func (f *fingerprints) unknown(found map[topicGroup]entity.Fingerprint) []repository.TopicFailure {
	f.mu.Lock()
	defer f.mu.Unlock()
	var fresh []topicGroup
	for key := range found {
		if at, ok := f.admitted[key.group]; !ok || time.Since(at) >= noteAgain {
			fresh = append(fresh, key)
		}
	}
	slices.SortFunc(fresh, func(a, b topicGroup) int {
		return cmp.Or(strings.Compare(a.topic, b.topic), bytes.Compare(a.group[:], b.group[:]))
	})
	failures := make([]repository.TopicFailure, len(fresh))
	for n, key := range fresh {
		failures[n] = repository.TopicFailure{DLQTopic: key.topic, Fingerprint: found[key]}
	}
	return failures
}

func (f *fingerprints) remember(ids []uuid.UUID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.admitted == nil || len(f.admitted)+len(ids) > fingerprintsKept {
		f.admitted = make(map[uuid.UUID]time.Time, len(ids))
	}
	now := time.Now()
	for _, id := range ids {
		f.admitted[id] = now
	}
}

// admitGroups creates a batch's error groups in the store before it, and moves messages of refused groups into
// entity.Unclassified of their topic. The error is that ctx ended.
func (i *Ingester) admitGroups(ctx context.Context, messages []entity.Message, found map[topicGroup]entity.Fingerprint) error {
	fresh := i.fingerprints.unknown(found)
	if len(fresh) == 0 {
		return nil
	}
	var rejected error
	refused, err := untilStored(ctx, i, func(ctx context.Context) ([]repository.TopicFailure, error) {
		refused, err := i.store.AdmitFingerprints(ctx, fresh)
		if rejected = nil; errors.Is(err, entity.ErrRefused) {
			rejected, err = err, nil
		}
		return refused, err
	})
	if err != nil {
		return err
	}
	if rejected != nil {
		i.log.Warn("the database refuses error groups; the records are stored without", zap.Int("groups", len(fresh)), zap.Error(rejected), traces.InLog(ctx))
		for n := range messages {
			messages[n].Group = uuid.Nil
		}
		return nil
	}
	unclassified := make(map[topicGroup]uuid.UUID, len(refused))
	for _, f := range refused {
		unclassified[topicGroup{f.DLQTopic, f.ID()}] = entity.Unclassified(f.DLQTopic).ID()
	}
	var ids []uuid.UUID
	for _, f := range fresh {
		if id := f.ID(); unclassified[topicGroup{f.DLQTopic, id}] == uuid.Nil {
			ids = append(ids, id)
		}
	}
	i.fingerprints.remember(ids)
	if len(refused) == 0 {
		return nil
	}
	for n := range messages {
		m := &messages[n]
		if group := unclassified[topicGroup{m.Source.Topic, m.Group}]; group != uuid.Nil {
			m.Group = group
		}
	}
	return nil
}
