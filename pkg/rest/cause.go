package rest

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

const (
	// maxReason is how many characters a reason may have.
	maxReason = 500
)

// task is the one piece of work that a request with an Idempotency-Key stands
// for.
type task struct {
	operation uuid.UUID
	resumed   bool // an earlier request may have begun it, and never answered
}

type taskKey struct{}

// taskOf returns the zero task for a request without a key.
func taskOf(ctx context.Context) task {
	t, _ := ctx.Value(taskKey{}).(task)
	return t
}

// causeOf says who wants what a request asks for, and why.
func causeOf(r *http.Request, reason string) (entity.Cause, error) {
	if err := checkReason(reason); err != nil {
		return entity.Cause{}, err
	}
	return entity.Cause{
		Actor:     principalOf(r).Name,
		Reason:    reason,
		RequestID: exchangeOf(r).id,
		TraceID:   traceID(r.Header),
		Operation: taskOf(r.Context()).operation,
	}, nil
}

// checkReason keeps out what would make another line, or another colour, of the
// logs and tables that show it.
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

// traceID reads the id of the request's trace, "" when there is none: a header
// that is not well formed is as good as no header.
func traceID(header http.Header) string {
	values := header.Values("Traceparent")
	if len(values) != 1 {
		return ""
	}
	text := values[0]
	// version-trace-parent-flags; later versions may go on behind a hyphen.
	if len(text) < 55 || len(text) > 55 && (text[:2] == "00" || text[55] != '-') {
		return ""
	}
	if text[2] != '-' || text[35] != '-' || text[52] != '-' || text[:2] == "ff" {
		return ""
	}
	trace, parent := text[3:35], text[36:52]
	if !lowerHex(text[:2]) || !lowerHex(trace) || !lowerHex(parent) || !lowerHex(text[53:55]) {
		return ""
	}
	if strings.Trim(trace, "0") == "" || strings.Trim(parent, "0") == "" {
		return ""
	}
	return trace
}

func lowerHex(text string) bool {
	_, err := hex.DecodeString(text)
	return err == nil && text == strings.ToLower(text)
}
