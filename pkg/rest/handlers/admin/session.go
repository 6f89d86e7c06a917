// Package admin answers requests about the system itself: the topic mapping, the redirects, the audit trail, the
// quarantine and the session of the principal.
package admin

import (
	"net/http"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/access"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
	"github.com/dlq-manager/dlq-manager/pkg/rest/wire"
)

// Session answers with the principal and its grants.
type Session struct {
	Mode    string // the mode of authentication
	Masking bool   // something is masked
}

// Get shows the principal and its grants, from which the console decides what to offer.
func (h Session) Get(w http.ResponseWriter, r *http.Request) error {
	p := access.Principal(r)
	grants := wire.Each(p.Grants, func(g auth.Grant) wire.Grant { return wire.Grant{Role: g.Role, Topics: g.TopicTexts()} })
	respond.JSON(w, http.StatusOK, wire.Session{Name: p.Name, Mode: h.Mode, Grants: grants, Masking: h.Masking})
	return nil
}
