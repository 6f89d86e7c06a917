package ingest

import (
	"unicode/utf8"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
)

// PayloadMode says when the column payload of a message is filled.
type PayloadMode string

const (
	// PayloadBackground: FillPayloads fills it after the message is stored.
	PayloadBackground PayloadMode = "background"
	// PayloadInline: Store fills it.
	PayloadInline PayloadMode = "inline"
	// PayloadNever: it stays NULL.
	PayloadNever PayloadMode = "never"
)

// DefaultPayloadLimit is the largest value, in bytes, that is copied into the column payload. For a larger value the
// copy would be most of the cost of storing the message.
const DefaultPayloadLimit = 64 << 10

// projection decides which values are copied into the column payload.
type projection struct {
	mode  PayloadMode
	limit int // of a value, in bytes; 0: none
}

// note returns why a message gets no payload, or none yet; "" when it gets one at once.
func (p projection) note(m *entity.Message) string {
	switch {
	case m.Record.State == entity.ValueOverLimit:
		return noteOver
	case m.Record.State == entity.ValueUnreadable:
		return noteUnreadable
	case m.Record.Value == nil:
		return ""
	case p.mode == PayloadNever || p.limit <= 0:
		return NoteNever
	}
	note := Projectable(m.Record.Value, p.limit)
	if note == "" && p.mode == PayloadBackground {
		return notePending
	}
	return note
}

// pendingPayloads returns the ids of the messages whose payload is to be filled later.
func pendingPayloads(in incoming) []byte {
	ids := codec.NewArray(codec.OIDUUID, len(in.Messages), 16)
	for i := range in.Messages {
		if in.notes[i] == notePending {
			ids.UUID(in.Messages[i].ID)
		}
	}
	return ids.Arg()
}

// projectionMaxDepth is the maximum nesting depth of a value that is copied to the column payload; jsonb fails
// between 14,000 and 16,000. The value's bytes are always stored.
const projectionMaxDepth = payload.MaxScan

// Reasons why a payload is NULL although there is a value.
const (
	NoteNotJSON  = "not_json"
	NoteTooLarge = "too_large"
	NoteTooDeep  = "too_deep"
	NoteNumber   = "number"     // digits or an exponent that would be huge as text
	NoteText     = "text"       // NUL, or half of a surrogate pair: jsonb rejects both
	NoteRefused  = "refused"    // PostgreSQL refused it
	noteOver     = "over_limit" // the record was not stored as a whole

	noteUnreadable = "unreadable" // there is no record to store
	NoteNever      = "never"      // by configuration
	notePending    = "pending"    // FillPayloads has not filled it yet
)

// Projectable returns "" when jsonb preserves value well enough, else the note to store.
func Projectable(value []byte, maxBytes int) string {
	switch {
	case len(value) > maxBytes:
		return NoteTooLarge
	case !utf8.Valid(value):
		return NoteNotJSON
	}
	switch form := payload.Scan(value); {
	case form.Depth > projectionMaxDepth:
		return NoteTooDeep
	case !form.Valid:
		return NoteNotJSON
	case form.Text:
		return NoteText
	case form.Number:
		return NoteNumber
	}
	return ""
}
