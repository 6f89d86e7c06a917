package console

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"go.uber.org/zap"
)

// Sessions remembers which sessions were ended, for all replicas. Implementations must be safe for concurrent use.
type Sessions interface {
	// Ended reports whether a session was ended. An error means that this is unknown.
	Ended(ctx context.Context, id string) (bool, error)

	// End ends a session on every replica, for as long as its token is valid.
	End(ctx context.Context, id, token string) error
}

// WithSessions makes signing out end a session on every replica, not only in the browser.
func WithSessions(s Sessions) Option { return func(c *Console) { c.sessions = s } }

// SignIns limits failed sign-ins per client address.
type SignIns interface {
	// Wait returns how long the sender of the request has to wait; 0 means not at all.
	Wait(r *http.Request) time.Duration

	// Failed counts a sign-in that failed.
	Failed(r *http.Request)
}

// WithSignIns limits failed sign-ins at the issuer. The API itself limits pasted tokens.
func WithSignIns(l SignIns) Option { return func(c *Console) { c.signIns = l } }

// withoutEnded refuses a request of a session that was ended on any replica. An Authorization header is no session.
func (c *Console) withoutEnded(r *http.Request) error {
	s := sessionOf(r)
	if c.sessions == nil || s.token == "" || len(r.Header.Values("Authorization")) > 0 {
		return nil
	}
	ended, err := c.sessions.Ended(r.Context(), s.id)
	switch {
	case err != nil:
		c.logger.Warn("cannot check whether a session was ended",
			zap.String("request_id", r.Header.Get("X-Request-Id")), zap.Error(err))
		return &apiError{Status: http.StatusServiceUnavailable, Message: "Your session cannot be checked at the moment."}
	case ended:
		return &apiError{Status: http.StatusUnauthorized, Message: "You have signed out."}
	}
	return nil
}

// tokenRefused reports whether the API refuses the token, or too many invalid tokens were tried.
func tokenRefused(err error) bool {
	var refused *apiError
	if !errors.As(err, &refused) {
		return false
	}
	return refused.Status == http.StatusUnauthorized || tooManyTokens(refused)
}

func tooManyTokens(refused *apiError) bool {
	return refused.Status == http.StatusTooManyRequests && len(refused.Details) == 1 && refused.Details[0]["field"] == "Authorization"
}

func (c *Console) mayTry(w http.ResponseWriter, r *http.Request) error {
	if c.signIns == nil {
		return nil
	}
	wait := c.signIns.Wait(r)
	if wait <= 0 {
		return nil
	}
	w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
	return &apiError{Status: http.StatusTooManyRequests, Message: "Too many sign-ins from this address failed. Try again in a minute."}
}
