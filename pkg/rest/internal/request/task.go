package request

import (
	"context"
	"net/http"
	"slices"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Task is the work of a request with an Idempotency-Key.
type Task struct {
	Operation uuid.UUID
	Resumed   bool // an earlier request may have started it without an answer
}

type taskKey struct{}

// WithTask returns the context of a request that works on t.
func WithTask(ctx context.Context, t Task) context.Context {
	return context.WithValue(ctx, taskKey{}, t)
}

// TaskOf returns the zero task for a request without a key.
func TaskOf(ctx context.Context) Task {
	t, _ := ctx.Value(taskKey{}).(Task)
	return t
}

// Performer knows which operations have been performed.
type Performer interface {
	Performed(ctx context.Context, operation uuid.UUID) (bool, error)
}

// Once takes a step, unless an earlier request with the same key has already taken it; then it only reads the
// object.
func Once[T any](r *http.Request, store Performer, read, step func(context.Context) (T, error)) (none T, err error) {
	if t := TaskOf(r.Context()); t.Resumed {
		performed, err := store.Performed(r.Context(), t.Operation)
		if err != nil {
			return none, err
		}
		if performed {
			return read(r.Context())
		}
	}
	return step(r.Context())
}

// UnbegunError is a failure before any work was done: the key is dropped.
type UnbegunError struct{ Err error }

func (e *UnbegunError) Error() string { return e.Err.Error() }
func (e *UnbegunError) Unwrap() error { return e.Err }

// Recorder adds entries to the audit trail.
type Recorder interface {
	Record(ctx context.Context, entry entity.AuditEntry) error
}

// auditedRead identifies one of the audit entries that a single read makes.
type auditedRead struct {
	action entity.Action
	kind   entity.Kind
	object uuid.UUID
	text   string
}

type auditedReads struct{ recorded []auditedRead }

type auditedKey struct{}

// RecordOnce records a read once per request: when there is no room for an answer, its handler is called a second time.
func RecordOnce(ctx context.Context, trail Recorder, entry entity.AuditEntry) error {
	reads, _ := ctx.Value(auditedKey{}).(*auditedReads)
	read := auditedRead{entry.Action, entry.Kind, entry.ObjectID, entry.LastError}
	if reads != nil && slices.Contains(reads.recorded, read) {
		return nil
	}
	err := trail.Record(ctx, entry)
	if err == nil && reads != nil {
		reads.recorded = append(reads.recorded, read)
	}
	return err
}

// WithAudit returns the context of a read whose handler may be called again.
func WithAudit(ctx context.Context) context.Context {
	return context.WithValue(ctx, auditedKey{}, new(auditedReads))
}
