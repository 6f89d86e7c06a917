package republisher

import (
	"context"
	"fmt"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// WithPointers names the dead-letter topics whose records may point to the record that failed. Pointers in other
// dead-letter topics are never followed: otherwise anyone who can write to such a topic could make the program read any
// record of the cluster.
func WithPointers(topics deadletter.Patterns) Option {
	return func(r *Republisher) { r.pointers = topics }
}

// pointerRefusal returns why a pointer's record must not be read. It does not check the caller's rights.
func (r *Republisher) pointerRefusal(m *entity.Message) error {
	topic := m.OriginalTopic
	if m.Share != nil && m.Share.State == entity.CompletionWaiting {
		return refuse(entity.PointerRefused, "the record of the dead letter, with its headers, is not stored yet: it is read from topic %s as soon as "+
			"that is possible", topic)
	}
	if !deadletter.IsPointer(m.Record) {
		return nil
	}
	switch share := m.Share; {
	case share != nil && share.State == entity.SourceGone:
		return refuse(entity.BadRecord, "the dead letter only points to its record, and the record is gone: %s", share.Reason)
	case !r.pointers.Match(m.Source.Topic):
		return refusePointer("neither a share group's configuration nor kafka.pointer_topics names dead-letter topic %s", m.Source.Topic)
	case entity.IsInternalTopic(topic):
		return refusePointer("topic %s is internal", topic)
	case !r.allowed.topic(topic):
		return refusePointer("topic %s is not in republish_allow", topic)
	}
	return nil
}

func refusePointer(format string, args ...any) error {
	return refuse(entity.PointerRefused, "the dead letter only points to its record, and the pointer is not followed: "+format, args...)
}

// notInternal asks Kafka whether a pointer's topic is internal, because Kafka may mark a topic of any name as internal.
// It returns a refusal if it is.
func (r *Republisher) notInternal(ctx context.Context, name string) error {
	topics, err := r.cluster.Topics(ctx, name)
	if err != nil {
		return fmt.Errorf("ask for topic %q: %w", name, err)
	}
	for _, t := range topics {
		if t.Name == name && t.Internal {
			return refusePointer("topic %s is internal", name)
		}
		if t.Name == name && t.Err != nil {
			return t.Err
		}
	}
	if len(topics) == 0 {
		return broker.ErrUnknownTopic
	}
	return nil
}
