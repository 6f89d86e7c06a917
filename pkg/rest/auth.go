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
)

type getter func(ctx context.Context, id uuid.UUID, maxValue int64) (entity.Message, error)

// apiPrefix is the prefix of paths that need authentication, also of paths without a route.
const apiPrefix = "/api/"

// WithAuth sets how requests are authenticated; mode is shown by the session route. Without this option every request
// may do everything.
func WithAuth(a auth.Authenticator, mode string) Option {
	return func(s *Server) { s.authenticator, s.authMode = a, mode }
}

func (s *Server) authenticated(r *http.Request) (*http.Request, error) {
	ctx := r.Context()
	if _, nobody := s.authenticator.(auth.Nobody); !nobody {
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

// known authenticates requests to unknown routes too, so that the answer does not reveal which routes exist.
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

// sameSite refuses changes that a page of another site sends through a user's browser. Requests of other programs pass.
func (s *Server) sameSite(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.crossSite.Check(r); err != nil {
			s.fail(w, r, refused(errForbidden, "not allowed: the request comes from a page of another site",
				detail{"Origin", "is another site"}))
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

// getSession shows the principal and its grants, from which the console decides what to offer.
func (s *Server) getSession(w http.ResponseWriter, r *http.Request) error {
	p := principalOf(r)
	grants := each(p.Grants, func(g auth.Grant) grantJSON { return grantJSON{g.Role, g.TopicTexts()} })
	writeJSON(w, http.StatusOK, sessionJSON{Name: p.Name, Mode: s.authMode, Grants: grants, Masking: !s.masks.Empty()})
	return nil
}
