package console

import (
	"net/http"

	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/view"
)

const (
	AttemptCookie = attemptCookie
	IssuerCookie  = issuerCookie
	TooSoon       = tooSoon
	MaxForm       = maxForm
)

type SignInAttempt = signInAttempt

func (a signInAttempt) Keep(w http.ResponseWriter) error { return a.keep(w) }

func WithLogger(logger *zap.Logger) Option { return func(c *Console) { c.logger = logger } }

// Page serves a page in the same way as the handlers of Routes.
func (c *Console) Page(h view.Handler) http.Handler { return c.server().page(h) }
