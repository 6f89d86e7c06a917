package search

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// classifyInterval is the time between two looks for unclassified messages when the
// last one found none.
const classifyInterval = 10 * time.Second

// classify gives messages that are in entity.Unclassified their own group, as far as
// the limits of their dead-letter topics allow. It reports whether it moved any.
func (w *Worker) classify(ctx context.Context) (moved bool, err error) {
	if time.Since(w.classified) < classifyInterval {
		return false, nil
	}
	messages, err := w.store.Unclassified(ctx, w.cfg.Batch, maxBytes)
	if err != nil {
		return false, err
	}
	failures := make([]repository.TopicFailure, len(messages))
	for i := range messages {
		failures[i] = repository.TopicFailure{DLQTopic: messages[i].Source.Topic, Fingerprint: w.maker.Of(w.decode(messages[i]))}
	}
	refused, err := w.store.AdmitFingerprints(ctx, failures)
	if err != nil {
		return false, err
	}
	moves := classifications(messages, failures, refused)
	if len(moves) == 0 {
		w.classified = time.Now()
		return false, nil
	}
	return true, w.store.Classify(ctx, moves)
}

// classifications are the groups of the messages whose failure was admitted.
func classifications(messages []entity.Message, failures, refused []repository.TopicFailure) []repository.Classification {
	type key struct {
		topic string
		group uuid.UUID
	}
	isRefused := map[key]bool{}
	for _, f := range refused {
		isRefused[key{f.DLQTopic, f.ID()}] = true
	}
	var moves []repository.Classification
	for i, f := range failures {
		if id := f.ID(); !isRefused[key{f.DLQTopic, id}] {
			moves = append(moves, repository.Classification{MessageID: messages[i].ID, DLQTopic: f.DLQTopic, Group: id})
		}
	}
	return moves
}
