package request

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/access"
)

const maxReason = 500

// Info contains the data about a request that handlers need in addition to its content, such as its id and its trace.
type Info struct {
	ID   string
	Call uuid.UUID // id that the server gives each request; see entity.AuditInfo
	// TraceID is the id of the trace that the request carries. If it carries none, this is the id of the trace that
	// starts with the request, provided that this trace is recorded.
	TraceID string
	Message *entity.Message // the message that a retry sends, once RetriedMessage has read it

	// EndAt sets the time by which the client must have read the whole answer; the zero time sets no such limit.
	EndAt func(time.Time)
}

type infoKey struct{}

// WithInfo returns the context of the request that info is about.
func WithInfo(ctx context.Context, info *Info) context.Context {
	return context.WithValue(ctx, infoKey{}, info)
}

// InfoOf returns the Info that the server has set for a request.
func InfoOf(r *http.Request) *Info {
	return r.Context().Value(infoKey{}).(*Info) //nolint:forcetypeassert // the server has put it there
}

// Getter loads messages, from the live table or from the archive. A value longer than maxValue is left out.
type Getter func(ctx context.Context, id uuid.UUID, maxValue int64) (entity.Message, error)

// RetriedMessage returns the message that a retry sends. It reads the message only once per request, so that the
// permission check and the attempt use the same record.
func RetriedMessage(r *http.Request, id uuid.UUID, load Getter) (*entity.Message, error) {
	info := InfoOf(r)
	if info.Message == nil {
		m, err := load(r.Context(), id, entity.RetryValueLimit)
		if err != nil {
			return nil, err
		}
		info.Message = &m
	}
	return info.Message, nil
}

// NewCause returns the actor, the reason and the ids of a request.
func NewCause(r *http.Request, reason string) (entity.AuditInfo, error) {
	if err := checkReason(reason); err != nil {
		return entity.AuditInfo{}, err
	}
	info := InfoOf(r)
	return entity.AuditInfo{
		Actor:     access.Principal(r).Name,
		Reason:    reason,
		RequestID: info.ID,
		TraceID:   info.TraceID,
		Operation: TaskOf(r.Context()).Operation,
		Call:      info.Call,
	}, nil
}

// QueryCause returns the actor, the reason and the ids of a request, as NewCause does. It takes the reason from the
// query.
func QueryCause(r *http.Request) (entity.AuditInfo, error) {
	reason, err := Text(r.URL.Query(), "reason")
	if err != nil {
		return entity.AuditInfo{}, err
	}
	return NewCause(r, reason)
}

// checkReason refuses long text, text that is not UTF-8, and control characters, which could break lines or change
// colours in logs and tables.
func checkReason(reason string) error {
	switch {
	case !utf8.ValidString(reason):
		return &entity.FieldError{Field: "reason", Reason: "must be UTF-8"}
	case strings.ContainsFunc(reason, unicode.IsControl):
		return &entity.FieldError{Field: "reason", Reason: "must not have control characters"}
	case utf8.RuneCountInString(reason) > maxReason:
		return &entity.FieldError{Field: "reason", Reason: fmt.Sprintf("must have at most %d characters", maxReason)}
	}
	return nil
}

// Task is the work that a request with an Idempotency-Key has to do.
type Task struct {
	Operation uuid.UUID
	Resumed   bool // an earlier request may have started the work without getting an answer
}

type taskKey struct{}

// WithTask returns the context of a request that works on t.
func WithTask(ctx context.Context, t Task) context.Context {
	return context.WithValue(ctx, taskKey{}, t)
}

// TaskOf returns the task of the request with this context; the zero task for a request without an Idempotency-Key.
func TaskOf(ctx context.Context) Task {
	t, _ := ctx.Value(taskKey{}).(Task)
	return t
}

// Performer knows which operations have been performed.
type Performer interface {
	Performed(ctx context.Context, operation uuid.UUID) (bool, error)
}

// Once performs a step, unless an earlier request with the same Idempotency-Key has already performed it. In that case
// Once only reads the object.
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

// UnbegunError is an error that occurred before the request changed anything. The server then deletes the request's
// Idempotency-Key, so the client may send the request again with the same key.
type UnbegunError struct{ Err error }

func (e *UnbegunError) Error() string { return e.Err.Error() }
func (e *UnbegunError) Unwrap() error { return e.Err }

// Recorder adds entries to the audit trail.
type Recorder interface {
	Record(ctx context.Context, entry entity.AuditEntry) error
}

// auditedRead identifies an audit entry of a read, so that a repeated read does not add it a second time.
type auditedRead struct {
	action entity.Action
	kind   entity.Kind
	object uuid.UUID
	text   string
}

type auditedReads struct{ recorded []auditedRead }

type auditedKey struct{}

// RecordOnce adds an audit entry for a read. With a context of WithAudit it adds each entry only once per request,
// because the handler of a read may be called again.
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
