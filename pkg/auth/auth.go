// Package auth says who sends a request and what they may do: by listed tokens, or by what an OpenID Connect issuer
// signed. It knows topics and roles; which role a route needs is left to the routes.
package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"
)

// ErrUnauthenticated: the request does not say who sends it, or not credibly. Its text is for logs; clients must not
// learn whether a token is unknown, expired or malformed.
var ErrUnauthenticated = errors.New("unauthenticated")

// Authenticator finds out who sends a request. The error is ErrUnauthenticated, or of kind entity.ErrUnavailable when
// that is unknown at the moment. No error holds a credential. It is safe for concurrent use.
type Authenticator interface {
	Authenticate(ctx context.Context, r *http.Request) (Principal, error)
}

// Option changes what an authenticator uses of its surroundings.
type Option func(*options)

type options struct {
	now     func() time.Time
	revoked *Revocations
}

// WithClock gives the clock that expiries are held against.
func WithClock(now func() time.Time) Option { return func(o *options) { o.now = now } }

// WithRevocations gives the tokens and sessions that count no more, to share them with Sessions.
func WithRevocations(r *Revocations) Option { return func(o *options) { o.revoked = r } }

// New returns the authenticator of cfg. It reads files at once and dials nothing: the first token asks an issuer.
func New(cfg Config, log *zap.Logger, change ...Option) (Authenticator, error) {
	o := optionsOf(change)
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if o.revoked == nil {
		var err error
		if o.revoked, err = NewRevocations(cfg, nil, log, change...); err != nil {
			return nil, err
		}
	}
	switch cfg.Mode {
	case ModeToken:
		return newTokens(cfg, o.revoked, log, o.now)
	case ModeOIDC:
		return newIssuer(cfg.OIDC, o.revoked, log, o.now)
	default:
		return Nobody{}, nil
	}
}

// Nobody asks for no credentials: every request comes from Anonymous, who may do everything.
type Nobody struct{}

// Authenticate returns a principal without limits.
func (Nobody) Authenticate(context.Context, *http.Request) (Principal, error) {
	return Principal{Name: Anonymous, Grants: []Grant{{Role: Admin, All: true}, {Role: Unmask, All: true}}}, nil
}

// maxBearer bounds tokens: signatures of longer texts are not worth their arithmetic.
const maxBearer = 16 << 10

func bearer(r *http.Request) (string, error) {
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return "", refuse("want one Authorization header, got %d", len(values))
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.TrimSpace(token)
	switch {
	case !strings.EqualFold(scheme, "Bearer") || token == "":
		return "", refuse("the Authorization header is not of the form Bearer TOKEN")
	case len(token) > maxBearer:
		return "", refuse("a token of %d bytes is too long", len(token))
	}
	return token, nil
}

func refuse(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, ErrUnauthenticated)...)
}
