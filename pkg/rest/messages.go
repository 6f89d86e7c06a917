package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Store is the part of the repository for single messages, for the messages of a topic, and for
// Idempotency-Keys.
type Store interface {
	List(ctx context.Context, topic string, page repository.Page) (repository.List, error)
	Get(ctx context.Context, id uuid.UUID, maxValue int64) (entity.Message, error)
	ValuePart(ctx context.Context, p repository.ValuePart) ([]byte, error)
	History(ctx context.Context, id uuid.UUID) ([]entity.Attempt, error)
	Requeue(ctx context.Context, id uuid.UUID, cause entity.Cause) (entity.Message, error)
	Redrive(ctx context.Context, id uuid.UUID) (entity.Redrive, error)
	Performed(ctx context.Context, operation uuid.UUID) (bool, error)
	Record(ctx context.Context, entry entity.AuditEntry) error
	repository.Keys
}

// Database is the part that the other routes need, which is missing in a store without a database.
type Database interface {
	Search(ctx context.Context, q repository.SearchQuery) (repository.SearchPage, error)
	CountMatching(ctx context.Context, q repository.CountQuery) (repository.MatchCount, error)
	Export(ctx context.Context, q repository.ExportQuery, yield func(*entity.Message) error) error
	IndexedUntil(ctx context.Context) (time.Time, error)

	Redrives(ctx context.Context, q repository.RedriveQuery) ([]entity.Redrive, error)
	RedriveItems(ctx context.Context, id uuid.UUID, q repository.ItemQuery) ([]entity.RedriveItem, error)
	RedriveOutcomes(ctx context.Context, id uuid.UUID, canary bool) (entity.OutcomeCounts, error)
	Change(ctx context.Context, c repository.Change, cause entity.Cause) ([]uuid.UUID, error)

	ErrorGroups(ctx context.Context, q repository.GroupQuery) ([]repository.ListedGroup, error)
	ErrorGroup(ctx context.Context, id uuid.UUID, visible *entity.TopicPatterns, trend repository.Trend) (entity.ErrorGroup, error)
	AnnotateGroup(ctx context.Context, id uuid.UUID, a repository.Annotation, where *entity.TopicPatterns, cause entity.Cause) ([]string, error)

	repository.Archive
	repository.Topics
	repository.Activity
	repository.Mappings
	repository.Audit

	Quarantined(ctx context.Context, q repository.QuarantineQuery) ([]entity.Quarantined, error)
	QuarantinedRecord(ctx context.Context, id uuid.UUID) (entity.Quarantined, error)
	RetryQuarantined(ctx context.Context, id uuid.UUID, cause entity.Cause) (entity.Quarantined, error)
	DeleteQuarantined(ctx context.Context, id uuid.UUID, cause entity.Cause) error
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
		if list, err = s.topicPage(r.Context(), name, page); err != nil {
			return err
		}
	}
	v, err := s.viewOf(r, false)
	if err != nil {
		return err
	}
	v.limit = maxListPayload
	s.writeMessages(w, list.Messages, v, struct {
		Pagination pagination `json:"pagination"`
	}{pagination{list.Total, page.Number, page.Size, list.HasNext(page)}})
	return nil
}

// getter loads messages from the live table or from the archive.
func (s *Server) getter(archived bool) getter {
	if archived {
		return s.db.GetArchived
	}
	return s.store.Get
}

func (s *Server) getMessage(archived bool) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		id, err := idOf(r, "message")
		if err != nil {
			return err
		}
		m, err := s.getter(archived)(r.Context(), id, maxPayload)
		if err == nil { // its text is larger than it
			err = repository.ReserveMemory(r.Context(), 2*repository.SizeInMemory(&m))
		}
		if err != nil {
			return err
		}
		return s.writeMessage(w, r, &m, archived)
	}
}

// Fetcher has values that no store has, as long as their topics do.
type Fetcher interface {
	// Fetch returns the record of a message. It fails with *entity.RefusedError where that is gone for good,
	// and with kind entity.ErrUnavailable where it cannot be read now.
	Fetch(ctx context.Context, m entity.Message) (entity.Record, error)
}

// getPayload sends the value byte for byte, as a download: in the console's origin it could run scripts.
func (s *Server) getPayload(archived bool) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		return s.sendPayload(w, r, s.getter(archived), archived)
	}
}

func (s *Server) sendPayload(w http.ResponseWriter, r *http.Request, load getter, archived bool) error {
	id, err := idOf(r, "message")
	if err != nil {
		return err
	}
	m, err := load(r.Context(), id, payloadPart)
	if err != nil {
		return err
	}
	if err := s.mayPayload(r, &m); err != nil {
		return err
	}
	if err := s.mayPointer(r, &m); err != nil {
		return err
	}
	if m.Record.State == entity.ValueNotLoaded && m.Record.Size > 0 && !s.dialects.IsPointer(&m) {
		if err := repository.ReserveMemory(r.Context(), 2*payloadPart); err != nil {
			return err
		}
		attach(w, m.ID)
		return s.sendParts(w, r, repository.ValuePart{ID: m.ID, Archived: archived}, m.Record.Size)
	}
	if m.Record.State == entity.ValueNotLoaded { // its size is not known
		if m, err = load(r.Context(), id, -1); err != nil {
			return err
		}
	}
	if s.fetcher != nil && (m.Record.State == entity.ValueOverLimit || s.dialects.IsPointer(&m)) {
		size := m.Record.Size
		if s.dialects.IsPointer(&m) { // not known before it is read
			size = s.limits.bytes.share
		}
		if err := accountOf(r.Context()).takeValue(r.Context(), size); err != nil {
			return err
		}
	}
	record, err := s.recordOf(r.Context(), m)
	if err != nil {
		return err
	}
	if err := s.recordPointer(r, &m); err != nil {
		return err
	}
	if record.Value == nil { // a tombstone: there is a value, and it is nothing
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	attach(w, m.ID)
	writeBody(w, http.StatusOK, "application/octet-stream", record.Value)
	return nil
}

// mayPayload needs the grant unmask where payloads are masked, since bytes cannot be. The read is recorded.
func (s *Server) mayPayload(r *http.Request, m *entity.Message) error {
	if !s.masks.CoversPath(payload.Path{}) {
		return nil
	}
	if err := mayMessage(principalOf(r), auth.Unmask, m); err != nil {
		return err
	}
	return s.noteMessage(r, m)
}

// recordOf returns a record with its value, which it fetches where the store does not keep it.
func (s *Server) recordOf(ctx context.Context, m entity.Message) (entity.Record, error) {
	if keepsValue(&m.Record) {
		return m.Record, nil
	}
	if s.fetcher == nil || m.Record.State != entity.ValueOverLimit && !s.dialects.IsPointer(&m) {
		return m.Record, s.hasBytes(m)
	}
	record, err := s.fetcher.Fetch(ctx, m)
	var gone *entity.RefusedError
	if errors.As(err, &gone) && gone.Class == entity.PointerRefused {
		return record, err // it is there, and it is not for the pointer to name it
	}
	if errors.As(err, &gone) {
		return record, refused(entity.ErrNotFound, "the value cannot be had any more: "+gone.Reason, details(err)...)
	}
	return record, err
}

// keepsValue reports whether a record over a limit has its whole value: the size of its headers does not count.
func keepsValue(r *entity.Record) bool {
	return r.State == entity.ValueOverLimit && (r.Value != nil || r.Size == 0 && !r.KeepsHeaders())
}

// hasBytes says why a message's value cannot be sent.
func (s *Server) hasBytes(m entity.Message) error {
	source, conflict := m.Source, func(format string, args ...any) error {
		return refused(entity.ErrConflict, fmt.Sprintf(format, args...))
	}
	if s.dialects.IsPointer(&m) {
		return conflict("the dead letter only points to its record, in topic %s: it is not kept here", m.OriginalTopic)
	}
	switch m.Record.State {
	case entity.ValueOverLimit:
		return conflict("the value of %d bytes is too large to be kept here; dead-letter topic %s has it in "+
			"partition %d at offset %d as long as it keeps it", m.Record.Size, source.Topic, source.Partition, source.Offset)
	case entity.ValueMissing:
		return conflict("the message was stored without a value")
	case entity.ValueUnreadable:
		return conflict("offsets %d to %d of partition %d of dead-letter topic %s cannot be read: %s",
			source.Offset, m.Record.LastOffset, source.Partition, source.Topic, m.Record.Unreadable)
	case entity.ValueNotLoaded:
		return fmt.Errorf("get payload: the store left out the value of %s", m.ID)
	case entity.ValueStored, entity.ValueFromPayload:
	}
	return nil
}

func (s *Server) deleteMessage(w http.ResponseWriter, r *http.Request) error {
	id, err := idOf(r, "message")
	if err != nil {
		return err
	}
	cause, err := queryCause(r)
	if err != nil {
		return err
	}
	if err := s.redriver.Delete(r.Context(), id, cause); err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, deletedJSON{true, "message " + id.String() + " deleted"})
	return nil
}

type deletedJSON struct {
	Success bool   `json:"success"`
	Message string `json:"message"`
}

type moved struct {
	ID         uuid.UUID     `json:"id"`
	Status     entity.Status `json:"status"`
	RetryCount int           `json:"retry_count"`
	MaxRetries int           `json:"max_retries"`
	Message    string        `json:"message"`
}

// step changes one object.
type step[T any] func(context.Context, uuid.UUID, entity.Cause) (T, error)

// move changes the state of a message by hand.
func (s *Server) move(step step[entity.Message], done string) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		id, cause, err := s.changeOf(w, r, "message")
		if err != nil {
			return err
		}
		m, err := onceOnly(s, r,
			func(ctx context.Context) (entity.Message, error) { return s.store.Get(ctx, id, 0) },
			func(ctx context.Context) (entity.Message, error) { return step(ctx, id, cause) })
		if err != nil {
			return err
		}
		text := "message " + id.String() + " " + done
		writeJSON(w, http.StatusOK, moved{id, m.Status, m.RetryCount, m.MaxRetries, text})
		return nil
	}
}
