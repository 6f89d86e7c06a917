package request

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/access"
)

const maxReason = 500

// Info is what handlers know of a request besides its content.
type Info struct {
	ID      string
	TraceID string          // of the trace that the request carries, else of the one that starts here if it is recorded
	Message *entity.Message // of the path, once RetriedMessage has read it

	// EndAt sets the time by which the client must have read the whole answer; the zero time sets no such limit.
	EndAt func(time.Time)
}

type infoKey struct{}

// WithInfo returns the context of the request that info is about.
func WithInfo(ctx context.Context, info *Info) context.Context {
	return context.WithValue(ctx, infoKey{}, info)
}

// InfoOf returns what is known of a request.
func InfoOf(r *http.Request) *Info {
	return r.Context().Value(infoKey{}).(*Info) //nolint:forcetypeassert // the server put it there
}

// Getter loads messages, from the live table or from the archive. A value longer than maxValue is left out.
type Getter func(ctx context.Context, id uuid.UUID, maxValue int64) (entity.Message, error)

// RetriedMessage returns the message of a retry. A request reads it only once, so that the checked message is the one
// that is sent.
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
func NewCause(r *http.Request, reason string) (entity.Cause, error) {
	if err := checkReason(reason); err != nil {
		return entity.Cause{}, err
	}
	info := InfoOf(r)
	return entity.Cause{
		Actor:     access.Principal(r).Name,
		Reason:    reason,
		RequestID: info.ID,
		TraceID:   info.TraceID,
		Operation: TaskOf(r.Context()).Operation,
	}, nil
}

// QueryCause is NewCause with the reason from the query.
func QueryCause(r *http.Request) (entity.Cause, error) {
	reason, err := Text(r.URL.Query(), "reason")
	if err != nil {
		return entity.Cause{}, err
	}
	return NewCause(r, reason)
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
