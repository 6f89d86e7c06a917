package rest

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// getter loads a message by its id.
type getter func(ctx context.Context, id uuid.UUID, maxValue int64) (entity.Message, error)

// noTrend asks for a group without its trend.
var noTrend repository.Trend

// apiPrefix is where one has to say who one is, also for what is not there.
const apiPrefix = "/api/"

// WithAuth gives the server someone who tells who sends a request; mode is what is
// shown of it. Without it everybody may do everything.
func WithAuth(a auth.Authenticator, mode string) Option {
	return func(s *Server) { s.authenticator, s.authMode = a, mode }
}

// authenticated returns the request with its principal.
func (s *Server) authenticated(r *http.Request) (*http.Request, error) {
	ctx := r.Context()
	if _, nobody := s.authenticator.(auth.Nobody); !nobody { // who asks nobody needs no time
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.cfg.RequestTimeout)
		defer cancel()
	}
	p, err := s.authenticator.Authenticate(ctx, r)
	if errors.Is(err, auth.ErrUnauthenticated) {
		s.logger.Info("request was not authenticated",
			exchangeOf(r).ids(zap.Stringer("client", exchangeOf(r).address), zap.Error(err))...)
		if len(r.Header.Values("Authorization")) > 0 && !s.attempts.failed(clientNetwork(r)) {
			err = s.tooManyAttempts(r)
		}
	}
	if err != nil {
		return r, err
	}
	return r.WithContext(context.WithValue(r.Context(), principalKey{}, p)), nil
}

// known keeps from strangers which routes there are.
func (s *Server) known(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, apiPrefix) {
			if _, err := s.authenticated(r); err != nil {
				s.fail(w, r, err)
				return
			}
		}
		next(w, r)
	}
}

// sameSite refuses changes that a page of another site makes a browser ask for:
// the browser may be let in where that page is not. Programs are no browsers and
// pass.
func (s *Server) sameSite(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.crossSite.Check(r); err != nil {
			s.fail(w, r, &requestError{
				kind: errForbidden, text: "not allowed: the request comes from a page of another site",
				details: []detail{{"Origin", "is another site"}},
			})
			return
		}
		next.ServeHTTP(w, r)
	})
}

type sessionJSON struct {
	Name    string      `json:"name"`
	Mode    string      `json:"mode"`
	Grants  []grantJSON `json:"grants"`
	Masking bool        `json:"masking"`
}

type grantJSON struct {
	Role   auth.Role `json:"role"`
	Topics []string  `json:"topics"`
}

// getSession tells who one is. It is how a console knows what to offer, and that
// nobody is asked for anything.
func (s *Server) getSession(w http.ResponseWriter, r *http.Request) error {
	p := principalOf(r)
	shown := sessionJSON{Name: p.Name, Mode: s.authMode, Grants: []grantJSON{}, Masking: !s.masks.Empty()}
	for _, g := range p.Grants {
		shown.Grants = append(shown.Grants, grantJSON{g.Role, g.TopicTexts()})
	}
	writeJSON(w, http.StatusOK, shown)
	return nil
}
