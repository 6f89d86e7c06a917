package redrive

import (
	"context"
	"errors"
	"fmt"

	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
)

// patcher makes another value of one. An error says that it does not fit.
type patcher interface {
	Apply(value []byte) ([]byte, error)
}

// Why a patch cannot be applied to what a message carries.
var (
	errTombstone  = errors.New("the value is null, and no JSON")
	errNotCarried = errors.New("the message does not carry its value, which is fetched when it is sent")
)

// compilePatch is nil for no patch.
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

// compile reads the redrive's patch, once in a run. An invalid one, which Begin refuses, fits nothing.
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

// misfit is a patch that fits nothing.
type misfit struct{ error }

// Apply answers why.
func (m misfit) Apply([]byte) ([]byte, error) { return nil, m.error }

// patched gives every message its patched value. Misfits are skipped, those of a refused origin as such.
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
