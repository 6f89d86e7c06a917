package rest

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// The codes that clients see. They are part of the API.
const (
	codeNotFound        = "SYS_DLQ_NOT_FOUND"
	codeValidation      = "SYS_DLQ_VALIDATION_ERROR"
	codeConflict        = "SYS_DLQ_CONFLICT"
	codeInternal        = "SYS_DLQ_INTERNAL_ERROR"
	codePublishFailed   = "SYS_DLQ_PUBLISH_FAILED"
	codeUnavailable     = "SYS_DLQ_UNAVAILABLE"
	codeUnauthenticated = "SYS_DLQ_UNAUTHENTICATED"
	codeForbidden       = "SYS_DLQ_FORBIDDEN"
	codeMisdirected     = "SYS_DLQ_MISDIRECTED"
	codeRateLimited     = "SYS_DLQ_RATE_LIMITED"
)

// Kinds that exist in HTTP only.
var (
	errMethod      = errors.New("method not allowed")
	errMediaType   = errors.New("unsupported media type")
	errTooLarge    = errors.New("request body too large")
	errMisdirected = errors.New("misdirected request")
	errRateLimited = errors.New("too many requests")
)

// answer is the HTTP answer to a kind of error. With fixed set, clients get text; else the error's own sentence, or
// text where it has none.
type answer struct {
	kind   error
	status int
	code   string
	text   string
	fixed  bool
}

// answers is the one place that knows HTTP statuses of errors; the first kind that matches wins.
var answers = [...]answer{
	{errMethod, http.StatusMethodNotAllowed, codeValidation, "method not allowed", false},
	{errMediaType, http.StatusUnsupportedMediaType, codeValidation, "unsupported media type", false},
	{errTooLarge, http.StatusRequestEntityTooLarge, codeValidation, "request body too large", false},
	{errMisdirected, http.StatusMisdirectedRequest, codeMisdirected, "misdirected request", false},
	{errRateLimited, http.StatusTooManyRequests, codeRateLimited, "too many requests", false},
	{auth.ErrUnauthenticated, http.StatusUnauthorized, codeUnauthenticated, "this needs a valid token, as Authorization: Bearer TOKEN", true},
	{errForbidden, http.StatusForbidden, codeForbidden, "not allowed", false},
	{entity.ErrInvalid, http.StatusBadRequest, codeValidation, "invalid request", false},
	{entity.ErrNotFound, http.StatusNotFound, codeNotFound, "not found", false},
	{entity.ErrConflict, http.StatusConflict, codeConflict, "the message's state does not allow this", false},
	{entity.ErrContended, http.StatusConflict, codeConflict, "other requests change the same rows at this moment, try again", true},
	{entity.ErrPublish, http.StatusBadGateway, codePublishFailed, "the message could not be published", true},
	{repository.ErrNeedsDatabase, http.StatusServiceUnavailable, codeUnavailable, "this needs a database", false},
	{entity.ErrUnavailable, http.StatusServiceUnavailable, codeUnavailable, unavailableText, true},
	{context.DeadlineExceeded, http.StatusServiceUnavailable, codeUnavailable, unavailableText, true},
	{context.Canceled, http.StatusServiceUnavailable, codeUnavailable, unavailableText, true},
}

var internal = answer{nil, http.StatusInternalServerError, codeInternal, "internal error", true}

const (
	unavailableText = "the service is not available at the moment, try again later"

	// retryAfter is the Retry-After of a 503, and of a 429 without a time of its own.
	retryAfter = 5 * time.Second

	// statusClientGone is never sent to a client; it is used in metrics and the log.
	statusClientGone = 499
)

// requestError is an error that this package found in a request. Its text is shown to the client.
type requestError struct {
	kind    error
	text    string
	details []detail
	after   time.Duration // of errRateLimited: when it may be tried again; 0 for retryAfter
}

func (e *requestError) Error() string { return e.text }

// refused returns an error of the kind with a text and details.
func refused(kind error, text string, details ...detail) *requestError {
	return &requestError{kind: kind, text: text, details: details}
}

func (e *requestError) Is(target error) bool { return target == e.kind }

type envelope struct {
	Error errorBody `json:"error"`
}

type errorBody struct {
	Code      string   `json:"code"`
	Message   string   `json:"message"`
	RequestID string   `json:"request_id"`
	Details   []detail `json:"details"`
}

// fail answers with the envelope, and logs the cause once unless it is the client's fault.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	a := answerFor(err)
	x := exchangeOf(r)
	s.logFailure(a, x, err)
	if x.status != 0 {
		// Part of another answer is already sent: only a broken connection shows the client that it is incomplete.
		panic(http.ErrAbortHandler)
	}
	if a.status == http.StatusServiceUnavailable || a.status == http.StatusTooManyRequests || errors.Is(err, entity.ErrContended) {
		w.Header().Set("Retry-After", strconv.Itoa(waitFor(err)))
	}
	if a.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	writeJSON(w, a.status, a.envelope(err, x.id))
}

func waitFor(err error) int {
	wait := retryAfter
	var refused *requestError
	if errors.As(err, &refused) && refused.after > 0 {
		wait = refused.after
	}
	return int(math.Ceil(wait.Seconds()))
}

func (a answer) envelope(err error, requestID string) envelope {
	return envelope{errorBody{Code: a.code, Message: a.message(err), RequestID: requestID, Details: details(err)}}
}

func (s *Server) logFailure(a answer, x *exchange, err error) {
	if a.status < http.StatusInternalServerError {
		return
	}
	log := s.logger.Error
	if a.status != http.StatusInternalServerError {
		log = s.logger.Warn // a dependency failed; not a bug of this program
	}
	log("request failed", x.ids(zap.String("route", x.route), zap.Int("status", a.status), zap.Error(err))...)
}

func (s *Server) clientGone(w http.ResponseWriter, r *http.Request, err error) {
	x := exchangeOf(r)
	s.logger.Debug("client gone", x.ids(zap.String("route", x.route), zap.Error(err))...)
	if x.status == 0 {
		w.WriteHeader(statusClientGone)
	}
}

func answerFor(err error) answer {
	for _, a := range answers {
		if errors.Is(err, a.kind) {
			return a
		}
	}
	return internal
}

// message returns the sentence for the client. Only an error that is made for clients is shown; the errors that wrap
// it are for the log.
func (a answer) message(err error) string {
	if a.fixed {
		return a.text
	}
	if text := innermost(err, a.kind).Error(); text != a.kind.Error() && text != "" {
		return text
	}
	return a.text
}

// innermost returns the error deepest in the chain that is of the kind, which was the first.
func innermost(err, kind error) error {
	for {
		var inner error
		switch e := err.(type) { //nolint:errorlint // this walks the chain itself
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

// clip limits the length of text that is repeated from a request.
func clip(text string) string {
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
