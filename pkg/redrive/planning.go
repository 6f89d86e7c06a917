package redrive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/traces"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

// plan returns the messages that may be sent, and records why the others may not. It waits while a leader is
// unreachable, because no attempt may start then. After leaderPatience it plans the reachable messages and leaves out
// the others; it does not wait for the same place again. An error means that the pass is over.
func (p *pass) plan(ctx context.Context, l *lease, messages []entity.Message) ([]entity.Outgoing, error) {
	batch, err := p.patched(ctx, l, outgoing(p.withoutRefused(l, messages)))
	if err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	deadline := p.now().Add(leaderPatience)
	try := 0
	defer func() { traces.Told(ctx, try) }()
	for delay := time.Second; ; delay = min(2*delay, leaderPause) {
		targets, err := p.target(traces.Try(ctx, try), batch, p.planning())
		try++
		if err != nil {
			return nil, fmt.Errorf("plan: %w", err)
		}
		left := deadline.Sub(p.now())
		settled, err := p.survey(ctx, targets, left > 0)
		if err != nil {
			return nil, fmt.Errorf("plan: %w", err)
		}
		if settled {
			return p.admit(l, batch, targets), nil
		}
		p.noteWaiting(ctx, true, "waiting for partitions whose leaders cannot be reached")
		if !wait.Sleep(ctx, min(delay, left)) {
			return nil, context.Cause(ctx)
		}
	}
}

// planning returns the circumstances of the redrive's creator. Its reads are audited once per message.
func (p *pass) planning() planning {
	cause := p.redrive.Cause
	cause.Operation = p.id
	return planning{bulk: true, visible: p.redrive.Selection.Visible, cause: cause}
}

// survey reports whether the messages can be sent as planned now, without unreachable ones; patient means that there
// is time to try again. An error means that the pass is over.
func (p *pass) survey(ctx context.Context, targets []entity.Target, patient bool) (settled bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	away, some, err := p.places.look(targets)
	switch {
	case err == nil:
		p.places.stranded = 0
		return true, nil
	case len(away) > 0 && patient:
		return false, nil
	}
	p.leaveOut(ctx, away)
	p.away = err
	if some {
		p.places.stranded = 0
	} else if over, forsaken := p.places.strand(targets, len(away) > 0); over {
		p.forsaken = forsaken
		return false, err
	}
	return true, nil
}

// withoutRefused skips messages whose topic has refused records in this pass.
func (p *pass) withoutRefused(l *lease, messages []entity.Message) []entity.Message {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.refused) == 0 {
		return messages
	}
	var left []entity.Message
	for _, m := range messages {
		if class, ok := p.refused[m.OriginalTopic]; ok {
			l.skip(m.ID, string(class))
			p.keys.block(m, l.numbers[m.ID])
			continue
		}
		left = append(left, m)
	}
	return left
}

// admit returns the messages that may be sent. Unreachable ones are stranded; see judgeStranded.
func (p *pass) admit(l *lease, batch []entity.Outgoing, targets []entity.Target) []entity.Outgoing {
	p.mu.Lock()
	defer p.mu.Unlock()
	planned := batch[:0]
	for i, t := range targets {
		m := &batch[i].Message
		var refused *entity.RefusedError
		switch {
		case errors.As(t.Err, &refused):
			l.skip(m.ID, string(refused.Class))
			if !originRefused(string(refused.Class)) {
				p.keys.block(*m, l.numbers[m.ID])
			}
		case t.Err != nil || p.places.shut(placeOf(t)):
			l.strand(m.ID)
			p.keys.hold(*m, l.numbers[m.ID])
		default:
			out := batch[i]
			out.Target = t
			planned = append(planned, out)
		}
	}
	return planned
}
