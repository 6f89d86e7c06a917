package rest

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

func (s *Server) getArchived(w http.ResponseWriter, r *http.Request) error {
	return s.sendMessage(w, r, s.db.GetArchived, true)
}

func (s *Server) getArchivedPayload(w http.ResponseWriter, r *http.Request) error {
	return s.sendPayload(w, r, s.db.GetArchived, true)
}

func (s *Server) getArchivedHistory(w http.ResponseWriter, r *http.Request) error {
	return s.sendHistory(w, r, s.db.GetArchived)
}

// restoreMessage brings a message back as PENDING.
func (s *Server) restoreMessage(w http.ResponseWriter, r *http.Request) error {
	id, err := messageID(r)
	if err != nil {
		return err
	}
	cause, err := s.readChange(w, r, fields{})
	if err != nil {
		return err
	}
	look := func(ctx context.Context) (entity.Message, error) { return s.store.Get(ctx, id, 0) }
	m, err := onceOnly(s, r, look, func(ctx context.Context) (entity.Message, error) { return s.db.Restore(ctx, id, cause) })
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, struct {
		ID      uuid.UUID     `json:"id"`
		Status  entity.Status `json:"status"`
		Message string        `json:"message"`
	}{id, m.Status, "message " + id.String() + " restored"})
	return nil
}
