package message

import (
	"net/http"
	"net/url"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/session"
)

func masking(unmask bool) url.Values {
	if unmask {
		return url.Values{"unmask": {"true"}}
	}
	return nil
}

// loadMessage loads a message. With unmask, if the answer contains masked values, it loads the message again without
// masks, which adds an entry to the audit trail. revealed reports whether the message was read without masks.
func loadMessage(r *http.Request, client api.Client, ref api.MessageRef, unmask bool) (m *api.Message, revealed bool, err error) {
	m = &api.Message{}
	if err := client.Get(r, ref.Endpoint(), nil, m); err != nil || !unmask || len(m.Masked) == 0 {
		return m, false, err
	}
	m = &api.Message{}
	return m, true, client.Get(r, ref.Endpoint(), masking(true), m)
}

// keepsBytes reports whether the payload is loaded only on request, because bytes cannot be masked, and each load is
// audited.
func keepsBytes(m *api.Message, v *session.Viewer, unmask bool) bool {
	return !unmask && m.OnlyBytes() && v.MayReveal(m.ScopeTopic())
}
