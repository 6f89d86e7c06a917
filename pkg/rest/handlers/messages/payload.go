package messages

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/access"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/request"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/unmask"
)

// Fetcher reads values that were too large to store. It reads them from the dead-letter topic, as long as the topic
// still contains them, and reads the records to which pointers point.
type Fetcher interface {
	// Fetch returns the record of a message. The error is *entity.RefusedError when the record no longer exists, and
	// of kind entity.ErrUnavailable when it cannot be read now.
	Fetch(ctx context.Context, m entity.Message) (entity.Record, error)
}

// Payloads answers with the values of messages, from the live table or from the archive.
type Payloads struct {
	Load     request.Getter
	Archived bool // Load reads the archive
	Store    Values
	Fetcher  Fetcher // nil: values that are not stored are not available
	Dialects Dialects
	Unmask   unmask.Rules

	// Reserve waits until a value of this size may be held in memory; -1: the size is not known.
	Reserve func(ctx context.Context, size int64) error
	Timeout time.Duration // time limit for reading a part of a value
}

// Values reads values in parts.
type Values interface {
	ValuePart(ctx context.Context, p repository.ValuePart) ([]byte, error)
}

// Get sends the value byte for byte, as a download, because a value that a browser shows as a page of the console's
// origin could run scripts.
func (h Payloads) Get(w http.ResponseWriter, r *http.Request) error {
	id, err := request.ID(r, "message")
	if err != nil {
		return err
	}
	m, err := h.Load(r.Context(), id, payloadPart)
	if err != nil {
		return err
	}
	if err := h.mayPayload(r, &m); err != nil {
		return err
	}
	if err := h.mayPointer(r, &m); err != nil {
		return err
	}
	if m.Record.State == entity.ValueNotLoaded && m.Record.Size > 0 && !h.Dialects.IsPointer(&m) {
		if err := repository.ReserveMemory(r.Context(), 2*payloadPart); err != nil {
			return err
		}
		attach(w, m.ID)
		return h.sendParts(w, r, repository.ValuePart{ID: m.ID, Archived: h.Archived}, m.Record.Size)
	}
	if m.Record.State == entity.ValueNotLoaded { // the size is not known yet
		if m, err = h.Load(r.Context(), id, -1); err != nil {
			return err
		}
	}
	if h.Fetcher != nil && (m.Record.State == entity.ValueOverLimit || h.Dialects.IsPointer(&m)) {
		size := m.Record.Size
		if h.Dialects.IsPointer(&m) { // the size of the record that a pointer names is not known before it is read
			size = -1
		}
		if err := h.Reserve(r.Context(), size); err != nil {
			return err
		}
	}
	record, err := h.recordOf(r.Context(), m)
	if err != nil {
		return err
	}
	if err := h.recordPointer(r, &m); err != nil {
		return err
	}
	if record.Value == nil { // a tombstone: the value is null
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	attach(w, m.ID)
	respond.Body(w, http.StatusOK, "application/octet-stream", record.Value)
	return nil
}

// mayPayload requires the grant unmask where payload fields are masked, because raw bytes cannot be masked. It
// records the read in the audit trail.
func (h Payloads) mayPayload(r *http.Request, m *entity.Message) error {
	if !h.Unmask.Masking.CoversPath(payload.Path{}) {
		return nil
	}
	if err := access.MayMessage(access.Principal(r), auth.Unmask, m); err != nil {
		return err
	}
	return h.Unmask.RecordMessage(r, m)
}

// recordOf returns the record of a message with its value. If the store does not keep the value, recordOf fetches it
// from Kafka.
func (h Payloads) recordOf(ctx context.Context, m entity.Message) (entity.Record, error) {
	if keepsValue(&m.Record) {
		return m.Record, nil
	}
	if h.Fetcher == nil || m.Record.State != entity.ValueOverLimit && !h.Dialects.IsPointer(&m) {
		return m.Record, h.hasBytes(m)
	}
	if h.Dialects.IsPointer(&m) && m.Share != nil && m.Share.State == entity.CompletionWaiting {
		return m.Record, respond.Refused(entity.ErrConflict,
			fmt.Sprintf("the record is being read from topic %s and is not stored yet: try again in a few seconds", m.OriginalTopic))
	}
	record, err := h.Fetcher.Fetch(ctx, m)
	var gone *entity.RefusedError
	if errors.As(err, &gone) && gone.Class == entity.PointerRefused {
		return record, err // the record may exist, but the configuration does not allow to read it by a pointer
	}
	if errors.As(err, &gone) {
		return record, respond.Refused(entity.ErrNotFound, "the value cannot be had any more: "+gone.Reason, respond.Details(err)...)
	}
	return record, err
}

// keepsValue reports whether the store has the whole value of a record that exceeds a limit. It has the value if only
// the headers exceed their limit.
func keepsValue(r *entity.Record) bool {
	return r.State == entity.ValueOverLimit && (r.Value != nil || r.Size == 0 && !r.KeepsHeaders())
}

// hasBytes returns an error when a message's value cannot be sent.
func (h Payloads) hasBytes(m entity.Message) error {
	source, conflict := m.Source, func(format string, args ...any) error {
		return respond.Refused(entity.ErrConflict, fmt.Sprintf(format, args...))
	}
	if h.Dialects.IsPointer(&m) {
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

// mayPointer requires viewer on the topic of the record that a pointer names.
func (h Payloads) mayPointer(r *http.Request, m *entity.Message) error {
	if !h.Dialects.IsPointer(m) || access.Principal(r).Everywhere(auth.Viewer) {
		return nil
	}
	return access.MayTopic(r, auth.Viewer, m.OriginalTopic)
}

// recordPointer adds the read of the record that a pointer names to the audit trail, before the record is shown.
func (h Payloads) recordPointer(r *http.Request, m *entity.Message) error {
	if h.Fetcher == nil || !h.Dialects.IsPointer(m) {
		return nil
	}
	cause, err := request.QueryCause(r)
	if err != nil {
		return err
	}
	return request.RecordOnce(r.Context(), h.Unmask.Trail, entity.PointerRead(m, cause))
}

// payloadPart is the number of bytes of a value that are in memory at a time. A larger value is read and sent in
// parts.
const payloadPart = 1 << 20

func attach(w http.ResponseWriter, id uuid.UUID) {
	w.Header().Set("Content-Disposition", `attachment; filename="`+id.String()+`.bin"`)
}

// sendParts sends a value in parts. If its message is deleted or archived meanwhile, the server cuts the connection, so
// that the client notices the incomplete answer. While sendParts writes a part, it holds no connection of the store.
func (h Payloads) sendParts(w http.ResponseWriter, r *http.Request, p repository.ValuePart, size int64) error {
	p.Length = payloadPart
	for ; p.From < size; p.From += payloadPart {
		part, err := h.valuePart(r.Context(), p)
		if err != nil {
			return err
		}
		if want := min(payloadPart, size-p.From); int64(len(part)) != want {
			return fmt.Errorf("value of %s has %d bytes from %d on, want %d", p.ID, len(part), p.From, want)
		}
		if p.From == 0 {
			w.Header().Set("Content-Type", "application/octet-stream")
			w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
			w.WriteHeader(http.StatusOK)
		}
		if _, err := w.Write(part); err != nil {
			return nil //nolint:nilerr // the client has left
		}
	}
	return nil
}

// valuePart reads a part within Timeout; all parts together may take longer. It does not wait for a driver
// that hangs.
func (h Payloads) valuePart(ctx context.Context, p repository.ValuePart) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.Timeout)
	defer cancel()
	type answer struct {
		part []byte
		err  error
	}
	read := make(chan answer, 1)
	go func() {
		part, err := h.Store.ValuePart(ctx, p)
		read <- answer{part, err}
	}()
	select {
	case a := <-read:
		return a.part, a.err
	case <-ctx.Done():
		return nil, fmt.Errorf("read value of %s: %w", p.ID, ctx.Err())
	}
}
