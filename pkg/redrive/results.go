package redrive

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// note records the results of a lease's attempts. Unconfirmed or doubtful ones are read again before the lease is
// saved.
func (p *pass) note(l *lease, endings []ending, unsaved bool) {
	for _, e := range endings {
		switch {
		case unsaved, e.finished.Status == "", e.delivery.Verdict == entity.InDoubt:
			l.doubt()
		default:
			p.noteEnded(l, e)
		}
	}
}

func (l *lease) doubt() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.doubtful = true
}

// noteEnded records an attempt's result. A message given back waits for a later lease, unless it is stranded.
func (p *pass) noteEnded(l *lease, e ending) {
	item, ended := itemOf(e.attempt())
	if !ended {
		if e.delivery.Class != "" {
			l.strand(e.outgoing.Message.ID)
		}
		return
	}
	item.Group = e.outgoing.Message.Failure.ConsumerGroup
	if e.delivery.Verdict == entity.Refused {
		p.refuse(e.outgoing.Target.Topic, e.delivery.Class)
	}
	l.set(item)
}

// attempt returns the ending as an attempt of the history, with the fields that itemOf reads.
func (e ending) attempt() entity.Attempt {
	t := e.outgoing.Target
	return entity.Attempt{
		MessageID: e.outgoing.Message.ID, Verdict: e.delivery.Verdict, To: e.finished.Status, Class: e.delivery.Class,
		Topic: t.Topic, TopicID: t.TopicID, Partition: e.delivery.Partition, Offset: e.delivery.Offset,
	}
}

func (p *pass) refuse(topic string, class entity.ErrorClass) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused[topic] = class
}

// progress records that some message got a result.
func (p *pass) progress() {
	p.mu.Lock()
	p.worked = true
	p.mu.Unlock()
}

// gotOn reports whether the pass can send to any partition.
func (p *pass) gotOn() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.places.reached) > 0 && p.places.hopeless < hopeless
}

// change performs a redrive action other than retry on a lease's messages, in one statement.
func (p *pass) change(ctx context.Context, l *lease) error {
	ids, err := p.permitted(ctx, l)
	if err != nil || len(ids) == 0 {
		return err
	}
	cause := p.redrive.Cause
	cause.Operation = p.id
	changed, err := p.selected.Change(ctx, repository.Change{
		Action: p.redrive.Action, IDs: ids, OriginalTopic: p.redrive.Options.OriginalTopic, Lease: l.held(),
	}, cause)
	if err != nil {
		l.doubt() // the store may have made the changes although its answer was lost
		return fmt.Errorf("%s messages: %w", p.redrive.Action, err)
	}
	done := make(map[uuid.UUID]bool, len(changed))
	for _, id := range changed {
		done[id] = true
		l.set(entity.RedriveItem{MessageID: id, Result: entity.ItemSucceeded, Offset: -1})
	}
	l.skipOthers(ids, done, repository.SkippedTaken)
	return nil
}

// auditAction returns the action in the audit trail for a redrive's change of a message.
func auditAction(a entity.RedriveAction) entity.Action {
	switch a {
	case entity.RedriveRequeue:
		return entity.ActionRequeue
	case entity.RedriveDead:
		return entity.ActionDead
	case entity.RedriveDelete:
		return entity.ActionDelete
	case entity.RedriveMap:
		return entity.ActionMap
	case entity.RedriveRetry:
	}
	return entity.ActionAttempt
}
