package messages

import (
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
	Load     request.Getter
	Archived bool // Load reads the archive
	Show     wire.Messages
	Unmask   unmask.Rules
}

// Get sends a message with everything that is known of it.
func (h Reader) Get(w http.ResponseWriter, r *http.Request) error {
	id, err := request.ID(r, "message")
	if err != nil {
		return err
	}
	m, err := h.Load(r.Context(), id, wire.MaxPayload)
	if err == nil { // the JSON text is larger than the value
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
