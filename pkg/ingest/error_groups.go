package ingest

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/ingest/internal/errorgroups"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/traces"
)

// Fingerprinter computes fingerprints: failures with the same cause have equal fingerprints. It is safe for concurrent
// use.
type Fingerprinter = errorgroups.Fingerprinter

// ErrorGroupStore is the part of a store that creates error groups.
type ErrorGroupStore interface {
	AdmitFingerprints(ctx context.Context, failures []repository.TopicFailure) (refused []repository.TopicFailure, err error)
}

// admitErrorGroups creates the error groups of a batch in the store before the batch is stored. Messages of an error
// group that the store refuses get the error group entity.Unclassified of their topic. If the database refuses the
// whole call, no message of the batch gets an error group. An error is returned only when ctx has ended.
func (i *Ingester) admitErrorGroups(ctx context.Context, messages []entity.Message, found map[errorgroups.Key]entity.Fingerprint) error {
	fresh := i.admitted.Unknown(found)
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
	unclassified := make(map[errorgroups.Key]uuid.UUID, len(refused))
	for _, f := range refused {
		unclassified[errorgroups.Key{Topic: f.DLQTopic, ID: f.ID()}] = entity.Unclassified(f.DLQTopic).ID()
	}
	var ids []uuid.UUID
	for _, f := range fresh {
		if id := f.ID(); unclassified[errorgroups.Key{Topic: f.DLQTopic, ID: id}] == uuid.Nil {
			ids = append(ids, id)
		}
	}
	i.admitted.Remember(ids)
	if len(refused) == 0 {
		return nil
	}
	for n := range messages {
		m := &messages[n]
		if group := unclassified[errorgroups.Key{Topic: m.Source.Topic, ID: m.Group}]; group != uuid.Nil {
			m.Group = group
		}
	}
	return nil
}
