package rest

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

func (s *Server) restoreMessage(w http.ResponseWriter, r *http.Request) error {
	id, cause, err := s.changeOf(w, r, "message")
	if err != nil {
		return err
	}
	m, err := onceOnly(s, r,
		func(ctx context.Context) (entity.Message, error) { return s.store.Get(ctx, id, 0) },
		func(ctx context.Context) (entity.Message, error) { return s.db.Restore(ctx, id, cause) })
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
