package bulk

import (
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

// invalidPatch is a patch that applies to no value.
type invalidPatch struct{ error }

// Apply returns the reason.
func (m invalidPatch) Apply([]byte) ([]byte, error) { return nil, m.error }

func applyPatch(patch patcher, r entity.Record) ([]byte, error) {
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
