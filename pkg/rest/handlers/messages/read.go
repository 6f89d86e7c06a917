package messages

import (
	"context"
	"net/http"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/request"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/unmask"
	"github.com/dlq-manager/dlq-manager/pkg/rest/wire"
)

// Reader answers with single messages, from the live table or from the archive.
type Reader struct {
	Load      request.Getter
	Archived  bool      // Load reads the archive
	Redirects Redirects // nil: no topic is redirected
	Topics    Topics    // nil: it is not known which topics exist
	Show      wire.Messages
	Unmask    unmask.Rules
}

// Redirects finds the redirects of topics.
type Redirects interface {
	// RedirectTargets returns the targets of the redirects of the given topics, by topic; a topic without a redirect is
	// left out.
	RedirectTargets(ctx context.Context, topics []string) (map[string]string, error)
}

// Topics knows which topics exist.
type Topics interface {
	// Exists reports which of the topics exist, and leaves out topics for which that is not known now. It answers
	// within seconds.
	Exists(ctx context.Context, topics ...string) map[string]bool
}

// Get sends a message, including the JSON members that lists leave out.
func (h Reader) Get(w http.ResponseWriter, r *http.Request) error {
	id, err := request.ID(r, "message")
	if err != nil {
		return err
	}
	m, err := h.Load(r.Context(), id, wire.MaxPayload)
	if err == nil { // the JSON of the answer needs about twice the memory of the message
		err = repository.ReserveMemory(r.Context(), 2*repository.SizeInMemory(&m))
	}
	if err != nil {
		return err
	}
	v, err := h.Unmask.View(r, false)
	if err != nil {
		return err
	}
	v.Limit, v.Archived = wire.MaxPayload, h.Archived
	if v.Target, err = h.target(r.Context(), &m); err != nil {
		return err
	}
	unmasked, err := h.Unmask.One(r, &m)
	if err != nil {
		return err
	}
	if unmasked {
		v.Unmasked = func(*entity.Message) bool { return true }
	}
	respond.Message(w, h.Show, &m, v)
	return nil
}

// target returns where a retry would send a message now; nil for an archived message and for a message of unknown
// origin.
func (h Reader) target(ctx context.Context, m *entity.Message) (*wire.Target, error) {
	if h.Archived || m.OriginalTopic == "" {
		return nil, nil //nolint:nilnil // the message has no target
	}
	t := &wire.Target{Topic: m.OriginalTopic}
	if h.Redirects != nil {
		targets, err := h.Redirects.RedirectTargets(ctx, []string{m.OriginalTopic})
		if err != nil {
			return nil, err
		}
		if target, redirected := targets[m.OriginalTopic]; redirected {
			t.Topic, t.Redirected = target, true
		}
	}
	if h.Topics != nil {
		if exists, known := h.Topics.Exists(ctx, t.Topic)[t.Topic]; known {
			t.Exists = &exists
		}
	}
	return t, nil
}
