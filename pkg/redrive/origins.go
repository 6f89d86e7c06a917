package redrive

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Judge returns a function that judges original topics by the configuration and the mapping. Its error comes from
// reading the mapping.
type Judge func(ctx context.Context) (func(*entity.Message) entity.OriginStanding, error)

// WithOrigins sets how original topics are judged. Without it every original topic counts as declared.
func WithOrigins(judge Judge) Option { return func(s *Service) { s.judge = judge } }

// everyOriginDeclared is the default Judge.
func everyOriginDeclared(context.Context) (func(*entity.Message) entity.OriginStanding, error) {
	declared := entity.OriginStanding{Declaration: entity.Declared}
	return func(*entity.Message) entity.OriginStanding { return declared }, nil
}

// planning holds the circumstances of a plan.
type planning struct {
	bulk    bool                  // no person reviewed each message
	auto    bool                  // automatic retry: no person requested the attempts
	visible *entity.TopicPatterns // the topics on which the redrive's creator has the needed role; nil for all
	// cause of the reads during planning; without an actor they are on behalf of no user and are not audited.
	cause entity.Cause
}

// target plans messages as Publisher.Plan does, and refuses those whose original topic is not declared well enough
// for the sender. Planning reads the records that pointers refer to, which is audited. The error is that of the
// store.
func (s *Service) target(ctx context.Context, batch []entity.Outgoing, how planning) ([]entity.Target, error) {
	targets, open, err := s.refuseOrigins(ctx, batch, how)
	if err != nil {
		return nil, err
	}
	if len(open) == len(batch) {
		targets = s.publisher.Plan(ctx, batch, how.bulk)
	} else if len(open) > 0 {
		some := make([]entity.Outgoing, len(open))
		for n, i := range open {
			some[n] = batch[i]
		}
		for n, t := range s.publisher.Plan(ctx, some, how.bulk) {
			targets[open[n]] = t
		}
	}
	for i := range batch {
		if targets[i].Err == nil {
			targets[i].Err = s.recordRead(ctx, &batch[i], how.cause)
		}
	}
	return targets, nil
}

// refuseOrigins returns a target with an error for each refused message, and the indexes of the others. It refuses no
// retry of a single message: its caller has reviewed the message, and the API checked the roles of the request.
func (s *Service) refuseOrigins(ctx context.Context, batch []entity.Outgoing, how planning) ([]entity.Target, []int, error) {
	targets, open := make([]entity.Target, len(batch)), make([]int, 0, len(batch))
	standing := func(*entity.Message) entity.OriginStanding { return entity.OriginStanding{} }
	if how.bulk {
		var err error
		if standing, err = s.judge(ctx); err != nil {
			return nil, nil, err
		}
	}
	for i := range batch {
		m := &batch[i].Message
		if how.bulk {
			targets[i] = entity.Target{Topic: m.OriginalTopic, Partition: -1, Err: originRefusal(m, standing(m), how)}
		}
		if targets[i].Err == nil {
			open = append(open, i)
		}
	}
	return targets, open, nil
}

// originRefusal returns why a message must not be sent unless a person reviewed it; nil when it may.
func originRefusal(m *entity.Message, is entity.OriginStanding, how planning) error {
	switch {
	case m.OriginalTopic == "": // the publisher's own refusal is more precise
		return nil
	case is.Undeclared != "":
		return &entity.RefusedError{Class: entity.Undeclared, Reason: is.Undeclared + "; retry it alone, map its dead-letter topic, or set its original topic"}
	case is.Declared():
		return nil
	case how.auto:
		return &entity.RefusedError{Class: entity.Undeclared, Reason: fmt.Sprintf(
			"automatic retry needs a declared origin, and neither kafka.origins nor a mapping declares origins for %s", m.Source.Topic)}
	case how.visible != nil && !how.visible.Match(m.Source.Topic):
		return &entity.RefusedError{Class: skippedNotPermitted, Reason: fmt.Sprintf(
			"only its headers name its original topic, which is not declared: the role on dead-letter topic %s is needed too", m.Source.Topic)}
	}
	return nil
}

// originRefused reports whether a message was skipped for a reason of originRefusal. Anyone who can write to a
// dead-letter topic can claim another team's topic and key, so such a message blocks no key.
func originRefused(reason string) bool {
	return reason == string(entity.Undeclared) || reason == skippedNotPermitted
}

// recordRead adds an audit entry when planning read the record that a pointer refers to.
func (s *Service) recordRead(ctx context.Context, out *entity.Outgoing, cause entity.Cause) error {
	m := &out.Message
	if cause.Actor == "" || !deadletter.IsPointer(m.Record) || out.Edit != nil && out.Edit.SetValue {
		return nil
	}
	return s.store.Record(ctx, entity.PointerRead(m, cause))
}

// permitted returns the messages that a mapping redrive may change: its creator needs the role on the dead-letter
// topic too.
func (p *pass) permitted(ctx context.Context, l *lease) ([]uuid.UUID, error) {
	visible := p.redrive.Selection.Visible
	if p.redrive.Action != entity.RedriveMap || visible == nil {
		return l.todo, nil
	}
	var ids []uuid.UUID
	for _, id := range l.todo {
		m, err := p.store.Get(ctx, id, 0)
		if unlessGone(err) != nil {
			return nil, fmt.Errorf("read message: %w", err)
		}
		if err == nil && !maySetOrigin(&m, visible) {
			l.skip(id, skippedNotPermitted)
			continue
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// maySetOrigin reports whether a role on these topics, nil for all, covers the message's dead-letter topic.
func maySetOrigin(m *entity.Message, visible *entity.TopicPatterns) bool {
	return visible == nil || m.Source.Topic == "" || visible.Match(m.Source.Topic)
}

func unlessGone(err error) error {
	if errors.Is(err, entity.ErrNotFound) {
		return nil
	}
	return err
}
