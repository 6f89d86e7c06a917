package auth

import (
	"context"
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"
)

// Authenticator identifies who sends a request. When it cannot, its error is ErrUnauthenticated, or of kind
// entity.ErrUnavailable when the credentials cannot be checked now. No error contains a credential. It is safe for
// concurrent use.
type Authenticator interface {
	Authenticate(ctx context.Context, r *http.Request) (Principal, error)
}

// Option configures an authenticator.
type Option func(*options)

type options struct {
	now     func() time.Time
	revoked *Revocations
}

// WithClock sets the clock for the expiry of tokens, and for the age of files and of cached answers.
func WithClock(now func() time.Time) Option { return func(o *options) { o.now = now } }

// WithRevocations sets the revoked tokens and sessions. A caller that also uses Sessions must pass the same Revocations
// to both.
func WithRevocations(r *Revocations) Option { return func(o *options) { o.revoked = r } }

// New returns the authenticator of cfg. It reads files at once, but opens no connection; in mode oidc, the first token
// causes the first request to the issuer.
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

// Nobody is the authenticator of mode none: every request is from Anonymous, who has all roles.
type Nobody struct{}

// Authenticate returns a principal with all roles on all topics.
func (Nobody) Authenticate(context.Context, *http.Request) (Principal, error) {
	return Principal{Name: Anonymous, Grants: []Grant{{Role: Admin, All: true}, {Role: Unmask, All: true}}}, nil
}

// maxBearer is the maximum size of a token in bytes. Longer tokens are refused before any hash or signature is
// computed.
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
