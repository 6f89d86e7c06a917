// Package respond sends answers: the envelope of an error with its HTTP status, and whole bodies.
package respond

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/rest/wire"
)

// The codes that clients see. They are part of the API.
const (
	CodeNotFound        = "SYS_DLQ_NOT_FOUND"
	CodeValidation      = "SYS_DLQ_VALIDATION_ERROR"
	CodeConflict        = "SYS_DLQ_CONFLICT"
	CodeInternal        = "SYS_DLQ_INTERNAL_ERROR"
	CodePublishFailed   = "SYS_DLQ_PUBLISH_FAILED"
	CodeUnavailable     = "SYS_DLQ_UNAVAILABLE"
	CodeUnauthenticated = "SYS_DLQ_UNAUTHENTICATED"
	CodeForbidden       = "SYS_DLQ_FORBIDDEN"
	CodeMisdirected     = "SYS_DLQ_MISDIRECTED"
	CodeRateLimited     = "SYS_DLQ_RATE_LIMITED"
	CodePrecondition    = "SYS_DLQ_PRECONDITION_FAILED"
)

// Kinds of errors that only HTTP requests have; the other kinds are in the package entity.
var (
	ErrMethod      = errors.New("method not allowed")
	ErrMediaType   = errors.New("unsupported media type")
	ErrTooLarge    = errors.New("request body too large")
	ErrMisdirected = errors.New("misdirected request")
	ErrRateLimited = errors.New("too many requests")

	// ErrForbidden: the principal lacks a role or a grant, or a page of another site sent the request.
	ErrForbidden = errors.New("forbidden")
)

// ErrClientGone: the client has left.
var ErrClientGone = errors.New("the client has left")

// Answer is the HTTP answer to a kind of error. With fixed, all clients get the text of the Answer. Otherwise clients
// get the error's own sentence, or the text if the error has none.
type Answer struct {
	kind   error
	Status int
	code   string
	text   string
	fixed  bool
}

// answers is the only place that maps errors to HTTP statuses. The first entry whose kind matches an error is used.
var answers = [...]Answer{
	{ErrMethod, http.StatusMethodNotAllowed, CodeValidation, "method not allowed", false},
	{ErrMediaType, http.StatusUnsupportedMediaType, CodeValidation, "unsupported media type", false},
	{ErrTooLarge, http.StatusRequestEntityTooLarge, CodeValidation, "request body too large", false},
	{ErrMisdirected, http.StatusMisdirectedRequest, CodeMisdirected, "misdirected request", false},
	{ErrRateLimited, http.StatusTooManyRequests, CodeRateLimited, "too many requests", false},
	{auth.ErrUnauthenticated, http.StatusUnauthorized, CodeUnauthenticated, "this needs a valid token, as Authorization: Bearer TOKEN", true},
	{ErrForbidden, http.StatusForbidden, CodeForbidden, "not allowed", false},
	{entity.ErrInvalid, http.StatusBadRequest, CodeValidation, "invalid request", false},
	{entity.ErrNotFound, http.StatusNotFound, CodeNotFound, "not found", false},
	{entity.ErrChanged, http.StatusPreconditionFailed, CodePrecondition, "it has changed since it was read", false},
	{entity.ErrConflict, http.StatusConflict, CodeConflict, "the message's state does not allow this", false},
	{entity.ErrContended, http.StatusConflict, CodeConflict, "other requests change the same rows at this moment, try again", true},
	{entity.ErrPublish, http.StatusBadGateway, CodePublishFailed, "the message could not be published", true},
	{repository.ErrObject, http.StatusServiceUnavailable, CodeUnavailable, "an object of the archive cannot be read", false},
	{repository.ErrNeedsDatabase, http.StatusServiceUnavailable, CodeUnavailable, "this needs a database", false},
	{repository.ErrEngineLate, http.StatusServiceUnavailable, CodeUnavailable, EngineAwayText, false},
	{repository.ErrEngineAway, http.StatusServiceUnavailable, CodeUnavailable, EngineAwayText, true},
	{entity.ErrUnavailable, http.StatusServiceUnavailable, CodeUnavailable, UnavailableText, true},
	{context.DeadlineExceeded, http.StatusServiceUnavailable, CodeUnavailable, UnavailableText, true},
	{context.Canceled, http.StatusServiceUnavailable, CodeUnavailable, UnavailableText, true},
}

var internal = Answer{nil, http.StatusInternalServerError, CodeInternal, "internal error", true}

const (
	// UnavailableText is the message of answers about a dependency that failed.
	UnavailableText = "the service is not available at the moment, try again later"

	// EngineAwayText is the message of answers to searches while the search engine does not answer.
	EngineAwayText = "the search engine does not answer, so searches by text, key, header and field fail; other requests work"

	// retryAfter is the Retry-After for an error that does not say how long to wait.
	retryAfter = 5 * time.Second

	// StatusClientGone is never sent to a client; it is used in metrics and the log.
	StatusClientGone = 499
)

// AwayText is the message of answers about a dependency that is known by name. An error names it by its method Away; what
// else the error says may be secret.
func AwayText(what string) string { return what + " cannot be reached at the moment, try again later" }

// Error is a fault of a request, or a limit that the request has reached. Its text is shown to the client.
type Error struct {
	kind    error
	text    string
	details []Detail
	After   time.Duration // for ErrRateLimited: how long the client must wait; 0 stands for retryAfter
}

// Refused returns an error of the kind with a text and details.
func Refused(kind error, text string, details ...Detail) *Error {
	return &Error{kind: kind, text: text, details: details}
}

func (e *Error) Error() string { return e.text }

// Is reports whether target is the kind of the error.
func (e *Error) Is(target error) bool { return target == e.kind }

// Envelope is the body of every answer to an error.
type Envelope struct {
	Error ErrorBody `json:"error"`
}

// ErrorBody is the error in an envelope. Details is never null.
type ErrorBody struct {
	Code      string   `json:"code"`
	Message   string   `json:"message"`
	RequestID string   `json:"request_id"`
	Details   []Detail `json:"details"`
}

// RetryAfter returns the Retry-After of an error's answer in seconds.
func RetryAfter(err error) int {
	wait := retryAfter
	var refused *Error
	if errors.As(err, &refused) && refused.After > 0 {
		wait = refused.After
	}
	return int(math.Ceil(wait.Seconds()))
}

// Envelope returns the body of the answer.
func (a Answer) Envelope(err error, requestID string) Envelope {
	return Envelope{ErrorBody{Code: a.code, Message: a.message(err), RequestID: requestID, Details: Details(err)}}
}

// AnswerTo returns the answer to an error; 500 for an error of no known kind.
func AnswerTo(err error) Answer {
	for _, a := range answers {
		if errors.Is(err, a.kind) {
			return a
		}
	}
	return internal
}

// message returns the sentence for the client. This is the text of the innermost error of the kind; the texts of errors
// that wrap it are only for the log.
func (a Answer) message(err error) string {
	var away interface {
		error
		Away() string
	}
	switch {
	case a.kind == entity.ErrUnavailable && errors.As(err, &away): //nolint:errorlint // kind is an entry of the table
		return AwayText(away.Away())
	case a.fixed:
		return a.text
	}
	if text := innermost(err, a.kind).Error(); text != a.kind.Error() && text != "" {
		return text
	}
	return a.text
}

// innermost returns the error of the kind that is deepest in the chain, because that error occurred first.
func innermost(err, kind error) error {
	for {
		var inner error
		switch e := err.(type) { //nolint:errorlint // this function walks the chain itself
		case interface{ Unwrap() error }:
			inner = e.Unwrap()
		case interface{ Unwrap() []error }:
			for _, child := range e.Unwrap() {
				if inner == nil && errors.Is(child, kind) {
					inner = child
				}
			}
		}
		if inner == nil || !errors.Is(inner, kind) {
			return err
		}
		err = inner
	}
}

// Clip cuts text that is repeated from a request after 128 bytes, and replaces bytes that are not UTF-8.
func Clip(text string) string {
	const limit = 128
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= limit {
		return text
	}
	cut := limit
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "..."
}

// Detail names a part of the request and what is wrong with it.
type Detail struct {
	Field  string `json:"field"`
	Reason string `json:"reason"`
}

// Details returns the details of an error. The result is never nil, because clients iterate over it.
func Details(err error) []Detail {
	var (
		request     *Error
		refused     *entity.RefusedError
		publish     *entity.PublishError
		interrupted *entity.InterruptedError
		claimed     *entity.ClaimedError
		database    *repository.NeedsDatabaseError
		engine      *repository.EngineAwayError
	)
	switch {
	case errors.As(err, &request) && request.details != nil:
		return request.details
	case errors.As(err, &database):
		return []Detail{{"database", "is not configured"}}
	case errors.As(err, &engine) && engine.Reason != "":
		return []Detail{{"opensearch", engine.Reason}}
	case errors.As(err, &refused):
		return []Detail{{"reason", refused.Reason}, {"class", string(refused.Class)}}
	case errors.As(err, &publish):
		return publishDetails(publish)
	case errors.As(err, &interrupted):
		return interruptedDetails(interrupted.Redrive)
	case errors.As(err, &claimed) && claimed.Unsettled:
		return []Detail{{"id", "mark it dead, or retry it with accept_duplicate"}}
	default:
		return append([]Detail{}, FieldDetails(err)...)
	}
}

func publishDetails(e *entity.PublishError) []Detail {
	list := []Detail{{"class", string(e.Class)}, {"status", e.Status.String()}}
	if !e.RetryAt.IsZero() {
		list = append(list, Detail{"retry_at", *wire.Stamp(e.RetryAt)})
	}
	return list
}

// interruptedDetails returns the progress of a redrive that was interrupted, as details of the error.
func interruptedDetails(redrive entity.Redrive) []Detail {
	counts := redrive.Counts
	return []Detail{
		{"redrive_id", redrive.ID.String()},
		{"selected", strconv.Itoa(redrive.Selected)},
		{"resolved", strconv.Itoa(counts.Succeeded)},
		{"failed", strconv.Itoa(counts.Failed)},
		{"dead", strconv.Itoa(counts.Dead)},
		{"in_doubt", strconv.Itoa(counts.InDoubt)},
		{"skipped", strconv.Itoa(counts.Skipped)},
		{"waiting", strconv.Itoa(counts.Waiting)},
	}
}

// FieldDetails returns a detail for every entity.FieldError in an error, including errors that were joined.
func FieldDetails(err error) []Detail {
	switch e := err.(type) { //nolint:errorlint // this function walks the chain itself
	case *entity.FieldError:
		return []Detail{{e.Field, e.Reason}}
	case interface{ Unwrap() error }:
		return FieldDetails(e.Unwrap())
	case interface{ Unwrap() []error }:
		var list []Detail
		for _, child := range e.Unwrap() {
			list = append(list, FieldDetails(child)...)
		}
		return list
	default:
		return nil
	}
}
