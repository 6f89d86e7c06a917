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

// Fingerprinter computes fingerprints: failures with the same cause get equal fingerprints. It is safe for concurrent
// use.
type Fingerprinter interface {
	Fingerprint(class, message, stack string) entity.Fingerprint
}

// ErrorGroupStore is the part of a store that creates error groups.
type ErrorGroupStore interface {
	AdmitFingerprints(ctx context.Context, failures []repository.TopicFailure) (refused []repository.TopicFailure, err error)
}

const (
	maxFingerprints = 10_000    // limits the cache; beyond it, some fingerprints are stored again
	admitAgain      = time.Hour // after this time they are stored again, because empty error groups may have been deleted
)

// cause is the input of a message's error group.
type cause struct{ topic, class, message, stack string }

// topicErrorGroup is an error group of messages of a dead-letter topic.
type topicErrorGroup struct {
	topic string
	id    uuid.UUID
}

// errorGrouping assigns error groups to messages, and computes one fingerprint for equal failures of a topic.
type errorGrouping struct {
	fingerprinter Fingerprinter // nil: no error groups
	known         map[cause]uuid.UUID
	found         map[topicErrorGroup]entity.Fingerprint
}

func newErrorGrouping(fingerprinter Fingerprinter) *errorGrouping {
	return &errorGrouping{fingerprinter: fingerprinter, known: map[cause]uuid.UUID{}, found: map[topicErrorGroup]entity.Fingerprint{}}
}

// group returns the error group of a message; uuid.Nil without error groups.
func (g *errorGrouping) group(m *entity.Message) uuid.UUID {
	if g.fingerprinter == nil {
		return uuid.Nil
	}
	failure := cause{m.Source.Topic, m.Failure.Class, m.ErrorMessage, m.Failure.StackTrace}
	id, ok := g.known[failure]
	if !ok {
		made := g.fingerprinter.Fingerprint(failure.class, failure.message, failure.stack)
		id = made.ID()
		g.known[failure], g.found[topicErrorGroup{failure.topic, id}] = id, made
	}
	return id
}

// fingerprints caches the error groups that the store has admitted from this process. It is safe for concurrent use.
type fingerprints struct {
	mu       sync.Mutex
	admitted map[uuid.UUID]time.Time // time of the admission, by id
}

// unknown returns the error groups in found that the store has not admitted within admitAgain, ordered by topic and id.
func (f *fingerprints) unknown(found map[topicErrorGroup]entity.Fingerprint) []repository.TopicFailure {
	f.mu.Lock()
	defer f.mu.Unlock()
	var fresh []topicErrorGroup
	for key := range found {
		if at, ok := f.admitted[key.id]; !ok || time.Since(at) >= admitAgain {
			fresh = append(fresh, key)
		}
	}
	slices.SortFunc(fresh, func(a, b topicErrorGroup) int {
		return cmp.Or(strings.Compare(a.topic, b.topic), bytes.Compare(a.id[:], b.id[:]))
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
	if f.admitted == nil || len(f.admitted)+len(ids) > maxFingerprints {
		f.admitted = make(map[uuid.UUID]time.Time, len(ids))
	}
	now := time.Now()
	for _, id := range ids {
		f.admitted[id] = now
	}
}

// admitErrorGroups creates the error groups of a batch in the store before the batch is stored. Messages of an error
// group that the store refuses get the error group entity.Unclassified of their topic. It returns an error only when
// ctx has ended.
func (i *Ingester) admitErrorGroups(ctx context.Context, messages []entity.Message, found map[topicErrorGroup]entity.Fingerprint) error {
	fresh := i.fingerprints.unknown(found)
	if len(fresh) == 0 {
		return nil
	}
	var rejected error
	refused, err := untilStored(ctx, i, func(ctx context.Context) ([]repository.TopicFailure, error) {
		refused, err := i.stores.ErrorGroups.AdmitFingerprints(ctx, fresh)
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
	unclassified := make(map[topicErrorGroup]uuid.UUID, len(refused))
	for _, f := range refused {
		unclassified[topicErrorGroup{f.DLQTopic, f.ID()}] = entity.Unclassified(f.DLQTopic).ID()
	}
	var ids []uuid.UUID
	for _, f := range fresh {
		if id := f.ID(); unclassified[topicErrorGroup{f.DLQTopic, id}] == uuid.Nil {
			ids = append(ids, id)
		}
	}
	i.fingerprints.remember(ids)
	if len(refused) == 0 {
		return nil
	}
	for n := range messages {
		m := &messages[n]
		if group := unclassified[topicErrorGroup{m.Source.Topic, m.Group}]; group != uuid.Nil {
			m.Group = group
		}
	}
	return nil
}
