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
	// PayloadBackground: FillPayloads fills the column after the message was stored.
	PayloadBackground PayloadMode = "background"
	// PayloadInline: Store fills the column when it stores the message.
	PayloadInline PayloadMode = "inline"
	// PayloadNever: the column stays NULL.
	PayloadNever PayloadMode = "never"
)

// DefaultPayloadLimit is the maximum size in bytes of a value that is copied to the column payload. For a larger value,
// most of the time for storing the message would be spent on this copy.
const DefaultPayloadLimit = 64 << 10

// projection decides which values are copied to the column payload.
type projection struct {
	mode  PayloadMode
	limit int // maximum size of a value in bytes; 0 when no value is copied
}

// note returns the reason why Store stores a message without payload; "" when it stores the payload or there is no
// value.
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

// pendingPayloads returns the ids of the messages whose column payload FillPayloads fills later.
func pendingPayloads(in incoming) []byte {
	ids := codec.NewArray(codec.OIDUUID, len(in.Messages), 16)
	for i := range in.Messages {
		if in.notes[i] == notePending {
			ids.UUID(in.Messages[i].ID)
		}
	}
	return ids.Arg()
}

// projectionMaxDepth is the maximum nesting depth of a value that is copied to the column payload; PostgreSQL's jsonb
// fails at a depth between 14,000 and 16,000. The value's bytes are stored in any case.
const projectionMaxDepth = payload.MaxScan

// Reasons why the column payload is NULL although the message has a value.
const (
	NoteNotJSON  = "not_json"
	NoteTooLarge = "too_large"
	NoteTooDeep  = "too_deep"
	NoteNumber   = "number"     // the value contains a number with too many digits or too large an exponent
	NoteText     = "text"       // the value contains NUL or half of a surrogate pair, which jsonb rejects
	NoteRefused  = "refused"    // PostgreSQL refused the value
	noteOver     = "over_limit" // the value was larger than the limit of ingest, and was not stored

	noteUnreadable = "unreadable" // the record could not be read from Kafka, so its value is not known
	NoteNever      = "never"      // the configuration says that payloads are never filled
	notePending    = "pending"    // FillPayloads has not filled the payload yet
)

// Projectable returns "" when the value can be converted to the jsonb of the column payload. Otherwise it returns the
// reason, which is stored in the column payload_note.
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
