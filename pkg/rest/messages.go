package rest

import (
	"bytes"
	"context"
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Store is what the API needs of a repository.
type Store interface {
	List(ctx context.Context, topic string, page repository.Page) (repository.List, error)
	Get(ctx context.Context, id uuid.UUID, maxValue int64) (entity.Message, error)
	History(ctx context.Context, id uuid.UUID) ([]entity.Attempt, error)
	Requeue(ctx context.Context, id uuid.UUID, cause entity.Cause) (entity.Message, error)

	Redrive(ctx context.Context, id uuid.UUID) (entity.Redrive, error)
	Redrives(ctx context.Context, q repository.RedriveQuery) ([]entity.Redrive, error)
	RedriveItems(ctx context.Context, id uuid.UUID, q repository.ItemQuery) ([]entity.RedriveItem, error)
	RedriveOutcomes(ctx context.Context, id uuid.UUID, canary bool) (entity.OutcomeCounts, error)

	repository.Keys
	repository.Audit
}

type pagination struct {
	TotalCount int64 `json:"total_count"`
	Page       int   `json:"page"`
	PageSize   int   `json:"page_size"`
	HasNext    bool  `json:"has_next"`
}

func (s *Server) listMessages(w http.ResponseWriter, r *http.Request) error {
	page, err := pageOf(r)
	if err != nil {
		return err
	}
	var list repository.List
	if name := topic(r); possibleTopic(name) {
		if list, err = s.store.List(r.Context(), name, page); err != nil {
			return err
		}
	}
	s.writeList(w, list, page)
	return nil
}

// writeList sends one message after the other: a page of a thousand payloads
// need not stand in memory twice.
func (s *Server) writeList(w http.ResponseWriter, list repository.List, page repository.Page) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	var buf bytes.Buffer
	buf.WriteString(`{"messages":[`)
	for i, m := range list.Messages {
		if i > 0 {
			buf.WriteByte(',')
		}
		s.appendMessage(&buf, m, maxListPayload)
		if _, err := w.Write(buf.Bytes()); err != nil {
			return // the client is gone, nobody reads the rest
		}
		buf.Reset()
	}
	buf.WriteString(`],"pagination":`)
	buf.Write(encode(pagination{list.Total, page.Number, page.Size, list.HasNext(page)}))
	buf.WriteByte('}')
	_, _ = w.Write(buf.Bytes())
}

func (s *Server) getMessage(w http.ResponseWriter, r *http.Request) error {
	id, err := messageID(r)
	if err != nil {
		return err
	}
	m, err := s.store.Get(r.Context(), id, maxPayload)
	if err != nil {
		return err
	}
	var buf bytes.Buffer
	s.appendMessage(&buf, m, maxPayload)
	writeBody(w, http.StatusOK, "application/json", buf.Bytes())
	return nil
}

// getPayload sends the value byte for byte. Browsers are told not to show it:
// whoever can write to a topic would otherwise run scripts in the console's
// origin.
func (s *Server) getPayload(w http.ResponseWriter, r *http.Request) error {
	id, err := messageID(r)
	if err != nil {
		return err
	}
	m, err := s.store.Get(r.Context(), id, -1)
	if err != nil {
		return err
	}
	if err := hasBytes(m); err != nil {
		return err
	}
	if m.Record.Value == nil { // a tombstone: there is a value, and it is nothing
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	w.Header().Set("Content-Disposition", `attachment; filename="`+m.ID.String()+`.bin"`)
	writeBody(w, http.StatusOK, "application/octet-stream", m.Record.Value)
	return nil
}

// hasBytes says why a message's value cannot be sent.
func hasBytes(m entity.Message) error {
	switch m.Record.State {
	case entity.ValueOverLimit:
		return &requestError{kind: entity.ErrConflict, text: fmt.Sprintf(
			"the value of %d bytes is too large to be kept here; dead-letter topic %s has it in partition %d at offset %d as long as it keeps it",
			m.Record.Size, m.Source.Topic, m.Source.Partition, m.Source.Offset)}
	case entity.ValueMissing:
		return &requestError{kind: entity.ErrConflict, text: "the message was stored without a value"}
	case entity.ValueNotLoaded:
		return fmt.Errorf("get payload: the store left out the value of %s", m.ID)
	case entity.ValueStored, entity.ValueFromPayload:
	}
	return nil
}

func (s *Server) deleteMessage(w http.ResponseWriter, r *http.Request) error {
	id, err := messageID(r)
	if err != nil {
		return err
	}
	reason, err := textParameter(r.URL.Query(), "reason")
	if err != nil {
		return err
	}
	cause, err := causeOf(r, reason)
	if err != nil {
		return err
	}
	if err := s.redriver.Delete(r.Context(), id, cause); err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, struct {
		Success bool   `json:"success"`
		Message string `json:"message"`
	}{true, "message " + id.String() + " deleted"})
	return nil
}

func (s *Server) requeueMessage(w http.ResponseWriter, r *http.Request) error {
	return s.move(w, r, s.store.Requeue, "requeued")
}

func (s *Server) giveUpMessage(w http.ResponseWriter, r *http.Request) error {
	return s.move(w, r, s.redriver.GiveUp, "marked dead")
}

// moved is the answer to a change of state by hand.
type moved struct {
	ID         uuid.UUID     `json:"id"`
	Status     entity.Status `json:"status"`
	RetryCount int           `json:"retry_count"`
	MaxRetries int           `json:"max_retries"`
	Message    string        `json:"message"`
}

func (s *Server) move(w http.ResponseWriter, r *http.Request, step func(context.Context, uuid.UUID, entity.Cause) (entity.Message, error), done string) error {
	id, err := messageID(r)
	if err != nil {
		return err
	}
	cause, err := s.readChange(w, r, fields{})
	if err != nil {
		return err
	}
	look := func(ctx context.Context) (entity.Message, error) { return s.store.Get(ctx, id, 0) }
	m, err := onceOnly(s, r, look, func(ctx context.Context) (entity.Message, error) { return step(ctx, id, cause) })
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, moved{id, m.Status, m.RetryCount, m.MaxRetries, "message " + id.String() + " " + done})
	return nil
}
