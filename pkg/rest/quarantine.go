package rest

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// maxQuarantined bounds a page: its records hold values.
const maxQuarantined = 100

// quarantinedJSON is a record that the database refused to store as a message.
type quarantinedJSON struct {
	ID             uuid.UUID       `json:"id"`
	DLQTopic       string          `json:"dlq_topic"`
	DLQPartition   int32           `json:"dlq_partition"`
	DLQOffset      int64           `json:"dlq_offset"`
	DLQTimestamp   *string         `json:"dlq_timestamp"`
	DLQTimestampMs *int64          `json:"dlq_timestamp_ms"`
	SQLState       string          `json:"sqlstate"`
	Error          *string         `json:"error"`
	FirstTry       *string         `json:"first_try"`
	LastTry        *string         `json:"last_try"`
	Tries          int             `json:"tries"`
	RetryAt        *string         `json:"retry_at"`
	Key            json.RawMessage `json:"key"`
	KeyOmitted     *string         `json:"key_omitted"`
	KeySize        *int64          `json:"key_size"`
	Headers        json.RawMessage `json:"headers"`
	Payload        json.RawMessage `json:"payload"`
	PayloadOmitted *string         `json:"payload_omitted"`
	PayloadSize    *int64          `json:"payload_size"`
	Masked         []string        `json:"masked"`
}

// showQuarantined shows a record like a message. With masks it hides the database's text, which may quote the record.
func (s *Server) showQuarantined(q entity.Quarantined) quarantinedJSON {
	m := q.Message()
	c := s.show(&m, view{limit: maxListPayload})
	shown := quarantinedJSON{
		ID: q.ID, DLQTopic: q.Source.Topic, DLQPartition: q.Source.Partition, DLQOffset: q.Source.Offset,
		DLQTimestamp: stamp(q.Source.Timestamp), DLQTimestampMs: orNull(q.Source.RawTime),
		SQLState: q.SQLState, FirstTry: stamp(q.FirstTry), LastTry: stamp(q.LastTry), Tries: q.Tries, RetryAt: stamp(q.RetryAt),
		Key: appendBlob(nil, q.Record.Key), KeyOmitted: orNull(largeIf(q.Record.KeyOmitted > 0)),
		KeySize: keySize(q.Record), Payload: c.payload, PayloadOmitted: orNull(c.omitted), PayloadSize: c.size, Masked: listOf(c.masked),
	}
	if !c.Record.HeadersOmitted || c.Record.Headers != nil {
		shown.Headers = appendHeaders(nil, c.Record.Headers, c.hidden)
	}
	if s.masks.Empty() {
		shown.Error = orNull(q.Error)
	}
	return shown
}

// permitQuarantined checks the dead-letter topic of the record: its original topic is not known yet.
func (s *Server) permitQuarantined(p auth.Principal, role auth.Role, r *http.Request) error {
	return permitObject(p, role, r, "quarantine", func(ctx context.Context, id uuid.UUID) error {
		q, err := s.db.QuarantinedRecord(ctx, id)
		if err == nil && !p.May(auth.Viewer, q.Source.Topic) {
			err = &entity.QuarantineNotFoundError{ID: id}
		}
		if err != nil {
			return err
		}
		return unless(p.May(role, q.Source.Topic), role, "topic "+clip(q.Source.Topic))
	})
}

func (s *Server) listQuarantine(w http.ResponseWriter, r *http.Request) error {
	l, err := s.listingOf(r, placeSize, defaultLimit, "topic")
	if err != nil {
		return err
	}
	l.limit = min(l.limit, maxQuarantined)
	topic, err := textParameter(r.URL.Query(), "topic")
	if err != nil {
		return err
	}
	records, err := s.db.Quarantined(r.Context(), repository.QuarantineQuery{
		Topic: topic, Visible: principalOf(r).Scope(auth.Viewer), Before: l.before(), Limit: l.limit + 1,
	})
	if err != nil {
		return err
	}
	records, next := part(l, records, func(last entity.Quarantined) []byte { return timePlace(last.FirstTry, last.ID) })
	writeList(w, "records", each(records, s.showQuarantined), next)
	return nil
}

// retryQuarantined makes the record due now; an ingester tries it within seconds.
func (s *Server) retryQuarantined(w http.ResponseWriter, r *http.Request) error {
	id, cause, err := s.changeOf(w, r, "quarantine")
	if err != nil {
		return err
	}
	q, err := s.db.RetryQuarantined(r.Context(), id, cause)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusAccepted, s.showQuarantined(q))
	return nil
}

func (s *Server) deleteQuarantined(w http.ResponseWriter, r *http.Request) error {
	id, cause, err := s.changeOf(w, r, "quarantine")
	if err != nil {
		return err
	}
	if cause.Reason == "" {
		return &entity.FieldError{Field: "reason", Reason: "is required: the record is lost for good"}
	}
	if err := s.db.DeleteQuarantined(r.Context(), id, cause); err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, deletedJSON{true, "quarantined record " + id.String() + " deleted"})
	return nil
}
