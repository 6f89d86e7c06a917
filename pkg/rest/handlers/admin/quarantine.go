package admin

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/access"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/request"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
	"github.com/dlq-manager/dlq-manager/pkg/rest/wire"
)

// maxQuarantined limits the records of a page, because they are shown with their values.
const maxQuarantined = 100

// Quarantine shows and changes the records that the database refused to store as messages.
type Quarantine struct {
	Database QuarantineDatabase
	Show     wire.Messages
	Cursors  request.Cursors
	Bodies   request.Bodies
}

// QuarantineDatabase reads, retries and deletes the quarantined records.
type QuarantineDatabase interface {
	Quarantined(ctx context.Context, q repository.QuarantineQuery) ([]entity.Quarantined, error)
	RetryQuarantined(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) (entity.Quarantined, error)
	DeleteQuarantined(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) error
}

// List sends a page of the quarantined records.
func (h Quarantine) List(w http.ResponseWriter, r *http.Request) error {
	l, err := h.Cursors.List(r, request.TimeSize, request.DefaultLimit, "topic")
	if err != nil {
		return err
	}
	l.Limit = min(l.Limit, maxQuarantined)
	topic, err := request.Text(r.URL.Query(), "topic")
	if err != nil {
		return err
	}
	records, err := h.Database.Quarantined(r.Context(), repository.QuarantineQuery{
		Topic: topic, Visible: access.Principal(r).Scope(auth.Viewer), Before: l.Before(), Limit: l.Limit + 1,
	})
	if err != nil {
		return err
	}
	records, next := request.Part(l, records, func(last entity.Quarantined) []byte { return request.TimePosition(last.FirstTry, last.ID) })
	respond.List(w, "records", wire.Each(records, h.Show.Quarantined), next)
	return nil
}

// Retry makes the record due now, so that an ingester tries to store it within seconds.
func (h Quarantine) Retry(w http.ResponseWriter, r *http.Request) error {
	id, cause, err := h.Bodies.ReadReason(w, r, "quarantine")
	if err != nil {
		return err
	}
	q, err := h.Database.RetryQuarantined(r.Context(), id, cause)
	if err != nil {
		return err
	}
	respond.JSON(w, http.StatusAccepted, h.Show.Quarantined(q))
	return nil
}

// Delete removes a record for good; the reason is required.
func (h Quarantine) Delete(w http.ResponseWriter, r *http.Request) error {
	id, cause, err := h.Bodies.ReadReason(w, r, "quarantine")
	if err != nil {
		return err
	}
	if cause.Reason == "" {
		return &entity.FieldError{Field: "reason", Reason: "is required: the record is lost for good"}
	}
	if err := h.Database.DeleteQuarantined(r.Context(), id, cause); err != nil {
		return err
	}
	respond.JSON(w, http.StatusOK, wire.Deleted{Success: true, Message: "quarantined record " + id.String() + " deleted"})
	return nil
}
