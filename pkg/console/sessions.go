package console

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"go.uber.org/zap"
)

// Sessions remembers which sessions were ended, for all replicas.
type Sessions interface {
	// Ended reports whether a session was ended. An error means that it cannot be told.
	Ended(ctx context.Context, id string) (bool, error)

	// End ends a session everywhere, for as long as its token counts.
	End(ctx context.Context, id, token string) error
}

// WithSessions lets signing out end sessions at every replica, not only in the browser.
func WithSessions(s Sessions) Option { return func(c *Console) { c.sessions = s } }

// SignIns limits the sign-ins that fail of each address.
type SignIns interface {
	// Wait returns how long whoever sends the request has to wait; 0 for not at all.
	Wait(r *http.Request) time.Duration

	// Failed counts a sign-in that failed.
	Failed(r *http.Request)
}

// WithSignIns limits failed sign-ins at the issuer. The API limits pasted tokens.
func WithSignIns(l SignIns) Option { return func(c *Console) { c.signIns = l } }

// withoutEnded refuses a request of a session that was ended at any replica. Own credentials are no session.
func (c *Console) withoutEnded(r *http.Request) error {
	s := sessionOf(r)
	if c.sessions == nil || s.token == "" || len(r.Header.Values("Authorization")) > 0 {
		return nil
	}
	ended, err := c.sessions.Ended(r.Context(), s.id)
	switch {
	case err != nil:
		c.logger.Warn("the store does not say whether a session was ended",
			zap.String("request_id", r.Header.Get("X-Request-Id")), zap.Error(err))
		return &apiError{Status: http.StatusServiceUnavailable, Message: "Your session cannot be checked at the moment."}
	case ended:
		return &apiError{Status: http.StatusUnauthorized, Message: "You have signed out."}
	}
	return nil
}

// tokenRefused reports whether the API refuses the token, also because too many were tried.
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
	return &apiError{Status: http.StatusTooManyRequests, Message: "Too many sign-ins from this address failed. Try it again in a minute."}
}
