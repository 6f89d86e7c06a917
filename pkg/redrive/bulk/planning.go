package bulk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/attempt"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/traces"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

const (
	// leaderTimeout is how long a redrive waits for a partition without a leader before it leaves the partition out.
	leaderTimeout = 30 * time.Second
	leaderPause   = 5 * time.Second // longest pause before planning again while a leader is missing
)

// plan returns the messages that may be sent, and records why the other messages may not be sent. While the leader of a
// target partition is unreachable, plan waits and tries again. After leaderTimeout it leaves out the messages of the
// partitions that are still unreachable; it does not wait for the same partition again. An error means that the pass
// must end.
func (p *pass) plan(ctx context.Context, l *lease, messages []entity.Message) ([]entity.Outgoing, error) {
	batch, err := p.applyPatch(ctx, l, attempt.OutgoingOf(p.withoutRefused(l, messages)))
	if err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	deadline := time.Now().Add(leaderTimeout)
	try := 0
	defer func() { traces.RecordTries(ctx, try) }()
	for delay := time.Second; ; delay = min(2*delay, leaderPause) {
		targets, err := p.deps.parts.Planner.Plan(traces.Try(ctx, try), batch, p.planOptions())
		try++
		if err != nil {
			return nil, fmt.Errorf("plan: %w", err)
		}
		left := time.Until(deadline)
		decided, err := p.recordReach(ctx, targets, left > 0)
		if err != nil {
			return nil, fmt.Errorf("plan: %w", err)
		}
		if decided {
			return p.admit(l, batch, targets), nil
		}
		p.run.setWaiting(ctx, true, "waiting for partitions whose leaders cannot be reached")
		if !wait.Sleep(ctx, min(delay, left)) {
			return nil, context.Cause(ctx)
		}
	}
}

// planOptions returns the options for planning on behalf of the redrive's creator. When planning reads a record that a
// pointer refers to, the read is audited once per message.
func (p *pass) planOptions() attempt.PlanOptions {
	cause := p.redrive.Cause
	cause.Operation = p.redrive.ID
	return attempt.PlanOptions{Bulk: true, Visible: p.redrive.Selection.Visible, Cause: cause, AcceptEnvelope: p.redrive.Options.AcceptEnvelope}
}

// recordReach records which targets are reachable. decided is true when the messages with reachable targets can be sent
// now; false means that plan should wait and try again. The parameter mayWait says whether leaderTimeout leaves time
// for that. An error means that the pass must end.
func (p *pass) recordReach(ctx context.Context, targets []entity.Target, mayWait bool) (decided bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	missing, some, err := p.reach.Update(targets)
	switch {
	case err == nil:
		p.reach.Found()
		return true, nil
	case len(missing) > 0 && mayWait:
		return false, nil
	}
	p.leaveOut(ctx, missing)
	p.unreachable = err
	if some {
		p.reach.Found()
	} else if over, noLeaders := p.reach.AddUnreachable(targets, len(missing) > 0); over {
		p.noLeaders = noLeaders
		return false, err
	}
	return true, nil
}

// withoutRefused skips the messages of original topics whose target has refused a record in this pass.
func (p *pass) withoutRefused(l *lease, messages []entity.Message) []entity.Message {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.refused)+len(p.held) == 0 {
		return messages
	}
	var left []entity.Message
	for _, m := range messages {
		if p.held[m.OriginalTopic] {
			p.withhold(l, &m)
			continue
		}
		if class, ok := p.refused[m.OriginalTopic]; ok {
			l.items.skip(m.ID, string(class))
			p.run.keys.block(m, l.items.numbers[m.ID])
			continue
		}
		left = append(left, m)
	}
	return left
}

// admit returns the messages that may be sent. The result of unreachable messages is decided later; see
// decideUnreachable.
func (p *pass) admit(l *lease, batch []entity.Outgoing, targets []entity.Target) []entity.Outgoing {
	p.mu.Lock()
	defer p.mu.Unlock()
	planned := batch[:0]
	for i, t := range targets {
		m := &batch[i].Message
		var refused *entity.RefusedError
		switch {
		case errors.As(t.Err, &refused) && refused.Missing && p.awaitTarget(m.OriginalTopic):
			p.withhold(l, m)
		case errors.As(t.Err, &refused):
			l.items.skip(m.ID, string(refused.Class))
			if !attempt.OriginRefused(string(refused.Class)) {
				p.run.keys.block(*m, l.items.numbers[m.ID])
			}
		case t.Err != nil || p.reach.Closed(attempt.PartitionOf(t)):
			l.items.addUnreachable(m.ID)
			p.run.keys.hold(*m, l.items.numbers[m.ID])
		default:
			delete(p.run.gone, m.OriginalTopic)
			out := batch[i]
			out.Target = t
			planned = append(planned, out)
		}
	}
	return planned
}

// leaveOut marks the partitions in missing as unreachable. This pass does not wait for them again, and continues
// without their messages.
func (p *pass) leaveOut(ctx context.Context, missing []attempt.TopicPartition) {
	for _, at := range missing {
		if !p.reach.Await(at) {
			continue
		}
		p.deps.log.Warn("redrive skips a partition without a reachable leader", zap.Stringer("redrive_id", p.redrive.ID),
			zap.String("topic", at.Topic), zap.Int32("partition", at.Partition), traces.InLog(ctx))
	}
}

// applyPatch applies the patch to every message. A message to which it cannot be applied is skipped. If the message's
// origin would be refused too, the reason for skipping it is that refusal.
func (p *pass) applyPatch(ctx context.Context, l *lease, batch []entity.Outgoing) ([]entity.Outgoing, error) {
	if p.run.patch == nil {
		return batch, nil
	}
	if err := p.deps.parts.Planner.SetRedirects(ctx, batch); err != nil {
		return nil, err //nolint:wrapcheck // the caller adds what failed
	}
	fitting := batch[:0]
	reader := p.run.patch.reader(ctx)
	var unfit []entity.Outgoing
	for _, out := range batch {
		done, err := p.run.patch.apply(ctx, reader, &out.Message, out.Redirect)
		if errors.Is(err, entity.ErrUnavailable) {
			return nil, err // the redrive waits until the registry returns the schema
		}
		if err != nil {
			unfit = append(unfit, out)
			continue
		}
		out.Edit = done.Edit
		fitting = append(fitting, out)
	}
	if len(unfit) == 0 {
		return fitting, nil
	}
	targets, _, err := p.deps.parts.Planner.RefuseOrigins(ctx, unfit, p.planOptions())
	if err != nil {
		return nil, err
	}
	for i := range unfit {
		m := &unfit[i].Message
		var refused *entity.RefusedError
		if errors.As(targets[i].Err, &refused) {
			l.items.skip(m.ID, string(refused.Class))
			continue
		}
		l.items.skip(m.ID, SkippedPatchFailed)
		p.run.keys.block(*m, l.items.numbers[m.ID])
	}
	return fitting, nil
}

// withoutTaken removes messages whose rows were locked before, if another caller has made an attempt on them since.
// Attempts of this redrive that were given back do not count.
func (p *pass) withoutTaken(ctx context.Context, l *lease, messages []entity.Message) ([]entity.Message, error) {
	attempted := p.run.locked.attempted(messages)
	if len(attempted) == 0 {
		return messages, nil
	}
	own, err := p.deps.store.AttemptsOf(ctx, p.redrive.ID, attempted)
	if err != nil {
		return nil, fmt.Errorf("list attempts on messages that were locked: %w", err)
	}
	begun := make(map[uuid.UUID]time.Time, len(own)) // start of this redrive's own last attempt on each message
	for _, a := range own {
		begun[a.MessageID] = a.StartedAt
	}
	left := messages[:0]
	for _, m := range messages {
		if slices.Contains(attempted, m.ID) {
			p.run.locked.forget(m.ID)
			if !m.LastRetryAt.Equal(begun[m.ID]) {
				l.items.skip(m.ID, repository.SkippedTaken)
				p.run.keys.block(m, l.items.numbers[m.ID])
				continue
			}
		}
		left = append(left, m)
	}
	return left, nil
}
