package rest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

const maxReason = 500

// task is the work of a request with an Idempotency-Key.
type task struct {
	operation uuid.UUID
	resumed   bool // an earlier request may have started it without an answer
}

type taskKey struct{}

// taskOf returns the zero task for a request without a key.
func taskOf(ctx context.Context) task {
	t, _ := ctx.Value(taskKey{}).(task)
	return t
}

// causeOf returns the actor, the reason and the ids of a request.
func causeOf(r *http.Request, reason string) (entity.Cause, error) {
	if err := checkReason(reason); err != nil {
		return entity.Cause{}, err
	}
	return entity.Cause{
		Actor:     principalOf(r).Name,
		Reason:    reason,
		RequestID: exchangeOf(r).id,
		TraceID:   traceID(r),
		Operation: taskOf(r.Context()).operation,
	}, nil
}

// queryCause is causeOf with the reason from the query.
func queryCause(r *http.Request) (entity.Cause, error) {
	reason, err := textParameter(r.URL.Query(), "reason")
	if err != nil {
		return entity.Cause{}, err
	}
	return causeOf(r, reason)
}

// checkReason refuses control characters, which could break lines or change colours in logs and tables.
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
