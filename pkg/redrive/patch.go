package redrive

import (
	"context"
	"errors"
	"fmt"

	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
)

// patcher computes a new value from a value. An error means that the patch does not apply to it.
type patcher interface {
	Apply(value []byte) ([]byte, error)
}

// Reasons for which a patch cannot be applied to a message.
var (
	errTombstone  = errors.New("the value is null, not JSON")
	errNotCarried = errors.New("the message does not carry its value, which is fetched when it is sent")
)

// compilePatch returns nil for no patch.
func compilePatch(patch []byte) (patcher, error) {
	if patch == nil {
		return nil, nil
	}
	p, err := payload.CompilePatch(patch)
	if err != nil {
		return nil, fmt.Errorf("compile the patch: %w", err)
	}
	return p, nil
}

// compile compiles the redrive's patch once per run. An invalid patch, which Begin rejects, applies to no message.
func (r *run) compile(patch []byte) {
	if r.patch != nil || patch == nil {
		return
	}
	p, err := compilePatch(patch)
	if err != nil {
		p = misfit{err}
	}
	r.patch = p
}

// misfit is a patch that applies to no value.
type misfit struct{ error }

// Apply returns the reason.
func (m misfit) Apply([]byte) ([]byte, error) { return nil, m.error }

// patched applies the patch to every message. Messages to which it does not apply are skipped, those with a refused
// origin for that reason.
func (p *pass) patched(ctx context.Context, l *lease, batch []entity.Outgoing) ([]entity.Outgoing, error) {
	if p.patch == nil {
		return batch, nil
	}
	fitting := batch[:0]
	var misfits []entity.Outgoing
	for _, out := range batch {
		value, err := apply(p.patch, out.Message.Record)
		if err != nil {
			misfits = append(misfits, out)
			continue
		}
		out.Edit = &entity.Edit{SetValue: true, Value: value, Patch: p.redrive.Options.Patch}
		fitting = append(fitting, out)
	}
	if len(misfits) == 0 {
		return fitting, nil
	}
	targets, _, err := p.refuseOrigins(ctx, misfits, p.planning())
	if err != nil {
		return nil, err
	}
	for i := range misfits {
		m := &misfits[i].Message
		var refused *entity.RefusedError
		if errors.As(targets[i].Err, &refused) {
			l.skip(m.ID, string(refused.Class))
			continue
		}
		l.skip(m.ID, skippedPatchFailed)
		p.keys.block(*m, l.numbers[m.ID])
	}
	return fitting, nil
}

func apply(patch patcher, r entity.Record) ([]byte, error) {
	carried := r.State == entity.ValueStored || r.State == entity.ValueFromPayload
	switch {
	case !carried || deadletter.IsPointer(r):
		return nil, errNotCarried
	case r.Value == nil:
		return nil, errTombstone
	default:
		return patch.Apply(r.Value)
	}
}
