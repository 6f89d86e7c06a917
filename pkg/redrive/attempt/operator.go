package attempt

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// MarkDead moves a message to DEAD for an operator. If the message has an expired claim of a dead process, MarkDead
// settles it first. If the message is then RESOLVED, it stays RESOLVED. If it is then DEAD, MarkDead returns no error.
// Errors are those of the store's MarkDead; if the claim cannot be settled now, the error is of kind
// entity.ErrUnavailable.
func (r *Retrier) MarkDead(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) (entity.Message, error) {
	status, err := r.settleFirst(ctx, id)
	if err != nil {
		return entity.Message{}, err
	}
	var m entity.Message
	if status == entity.Dead {
		m, err = r.store.Get(ctx, id, 0)
	} else {
		m, err = r.store.MarkDead(ctx, id, cause)
	}
	if err != nil {
		return entity.Message{}, fmt.Errorf("give message up: %w", err)
	}
	return m, nil
}

// Delete removes a message for an operator, in every state but RETRYING. If the message has an expired claim of a dead
// process, Delete settles it first. Errors are those of the store's Delete; if the claim cannot be settled now, the
// error is of kind entity.ErrUnavailable.
func (r *Retrier) Delete(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) error {
	if _, err := r.settleFirst(ctx, id); err != nil {
		return err
	}
	if err := r.store.Delete(ctx, id, cause); err != nil {
		return fmt.Errorf("delete message: %w", err)
	}
	return nil
}

// settleFirst settles an expired claim, and returns the status of the claimed message after that. It returns "" for a
// message that is not claimed, or whose attempt cannot be settled.
func (r *Retrier) settleFirst(ctx context.Context, id uuid.UUID) (entity.Status, error) {
	m, err := r.store.Get(ctx, id, 0)
	if err != nil {
		return "", fmt.Errorf("read message: %w", err)
	}
	if !m.Claimed() || m.Unsettled {
		return "", nil
	}
	settled, err := r.settler.settleMessage(ctx, m)
	return settled.Finished.Status, err
}
