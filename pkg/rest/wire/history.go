package wire

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
)

// History contains the attempts on a message and the changes of the message, and the attempts and changes of its
// ancestors.
type History struct {
	ID uuid.UUID `json:"id"`
	Past
	Lineage []Ancestor `json:"lineage"`
}

// Past lists attempts and changes, oldest first.
type Past struct {
	Attempts []Attempt `json:"attempts"`
	Changes  []Change  `json:"changes"`
}

// Attempt is one attempt to send a message, and its result.
type Attempt struct {
	Number        int                `json:"number"`
	RedriveID     uuid.UUID          `json:"redrive_id"`      // id of this attempt, which the record has in its header dlq-redrive-id
	BulkRedriveID *uuid.UUID         `json:"bulk_redrive_id"` // id of the redrive that made the attempt; null without a redrive
	RetryCount    int                `json:"retry_count"`
	Actor         *string            `json:"actor"`
	StartedAt     *string            `json:"started_at"`
	EndedAt       *string            `json:"ended_at"`
	From          entity.Status      `json:"from_status"`
	To            entity.Status      `json:"to_status"`
	ErrorClass    *entity.ErrorClass `json:"error_class"`
	Error         *string            `json:"error"`
	Topic         *string            `json:"topic"`
	Partition     *int32             `json:"partition"`
	Offset        *int64             `json:"offset"`
	Edit          *Edit              `json:"edit"`
}

// Ancestor is an earlier message of the lineage: its replay failed again, which led to the message that was asked for.
type Ancestor struct {
	ID         uuid.UUID       `json:"id"`
	ParentID   *uuid.UUID      `json:"parent_id"`
	Status     entity.Status   `json:"status"`
	Outcome    *entity.Outcome `json:"outcome"`
	RetryCount int             `json:"retry_count"`
	CreatedAt  *string         `json:"created_at"`
	Past
}

// NewAttempt returns an attempt for the answer. The caller adds its edit.
func NewAttempt(a entity.Attempt) Attempt {
	return Attempt{
		Number: a.Number, RedriveID: a.ID, BulkRedriveID: OrNull(a.RedriveID), RetryCount: a.RetryCount,
		Actor: OrNull(a.Actor), StartedAt: Stamp(a.StartedAt), EndedAt: Stamp(a.EndedAt), From: a.From, To: a.To,
		ErrorClass: OrNull(a.Class), Error: OrNull(a.Error), Topic: OrNull(a.Topic),
		Partition: sentTo(a.Topic, a.Partition), Offset: sentTo(a.Topic, a.Offset),
	}
}

// sentTo returns the partition or the offset of a sent record. It returns nil when nothing was sent or the value is
// unknown, because 0 is a valid partition and offset.
func sentTo[T int32 | int64](topic string, n T) *T {
	if topic == "" || n < 0 {
		return nil
	}
	return &n
}

// Change is an entry of the audit trail.
type Change struct {
	ID         int64              `json:"id"`
	At         *string            `json:"at"`
	Action     entity.Action      `json:"action"`
	Kind       entity.Kind        `json:"kind"`
	ObjectID   uuid.UUID          `json:"object_id"`
	From       *string            `json:"from"`
	To         *string            `json:"to"`
	RetryCount *int               `json:"retry_count"`
	ErrorClass *entity.ErrorClass `json:"error_class"`
	Error      *string            `json:"error"`
	Actor      *string            `json:"actor"`
	Reason     *string            `json:"reason"`
	RequestID  *string            `json:"request_id"`
	TraceID    *string            `json:"trace_id"`
	ActorKind  entity.ActorKind   `json:"actor_kind"`
	Topics     []string           `json:"topics,omitempty"`
	// Entries counts a request's entries, up to entity.MaxRequestEntries + 1, when the list shows them as one change.
	Entries int             `json:"entries,omitempty"`
	Redrive *CreatedRedrive `json:"redrive,omitempty"`
}

// CreatedRedrive contains the action and the number of selected messages of the redrive that a request created.
type CreatedRedrive struct {
	Action   entity.RedriveAction `json:"action"`
	Selected int                  `json:"selected"`
}

// NewChange shows an entry of the audit trail.
func NewChange(e entity.AuditEntry) Change {
	shown := Change{
		ID: e.ID, At: Stamp(e.At), Action: e.Action, Kind: e.Kind, ObjectID: e.ObjectID, From: OrNull(e.From),
		To: OrNull(e.To), ErrorClass: OrNull(e.Class), Error: OrNull(e.LastError), Actor: OrNull(e.Cause.Actor),
		Reason: OrNull(e.Cause.Reason), RequestID: OrNull(e.Cause.RequestID), TraceID: OrNull(e.Cause.TraceID),
		ActorKind: e.ActorKind(), Entries: e.Entries,
	}
	if e.Redrive != "" {
		shown.Redrive = &CreatedRedrive{e.Redrive, e.Selected}
	}
	if e.Topics != "" {
		shown.Topics = strings.Split(e.Topics, ",")
	}
	if e.Kind == entity.KindMessage {
		shown.RetryCount = &e.RetryCount
	}
	return shown
}

// Edit describes how the record that an attempt sent differed from its message.
type Edit struct {
	TargetTopic    *string         `json:"target_topic"`
	PayloadChanged bool            `json:"payload_changed"`
	PayloadPatch   json.RawMessage `json:"payload_patch"` // null: no new payload given, or one is no JSON or too large
	KeyChanged     bool            `json:"key_changed"`
	HeadersChanged bool            `json:"headers_changed"`
	Headers        json.RawMessage `json:"headers"`
	RedrivePatch   json.RawMessage `json:"redrive_patch"`
}

// NewEdit shows an edit by its differences from the message; nil for a record that was sent unchanged. schemas decodes
// the payloads before and after the edit; if it is nil, they are not decoded.
func NewEdit(e *entity.Edit, m *entity.Message, unmasked bool, by Masking, schemas entity.PartReader) *Edit {
	if e == nil {
		return nil
	}
	shown := &Edit{
		TargetTopic: OrNull(e.Topic), PayloadChanged: e.SetValue || e.Patch != nil, KeyChanged: e.SetKey,
		HeadersChanged: e.SetHeaders,
	}
	if e.SetHeaders {
		var hidden []bool
		if !unmasked {
			hidden = by.headers(e.Headers)
		}
		shown.Headers = appendHeaders(nil, e.Headers, hidden)
	}
	if e.Patch != nil {
		shown.RedrivePatch = showPatch(e.Patch, readable(m, schemas), unmasked, by)
	} else if e.SetValue {
		if unmasked {
			by.Masks = nil
		}
		shown.PayloadPatch = difference(m, e, by, schemas)
	}
	return shown
}

// showPatch shows a patch of the payload that of describes.
func showPatch(patch []byte, of entity.Decoded, unmasked bool, by Masking) json.RawMessage {
	if patch == nil || unmasked {
		return patch
	}
	if of.Format != entity.NoFormat && of.JSON == nil {
		by.Masks = by.OrAll() // the names of the schema are not known
	}
	return by.Patch(slices.Clone(patch), of.Names)
}

// readable returns a payload as JSON, decoded if it has a schema; the JSON is nil if the payload cannot be shown as JSON.
func readable(m *entity.Message, schemas entity.PartReader) entity.Decoded {
	d := entity.DecodePart(schemas, m, entity.ValuePart, MaxPayload)
	if d.Format == entity.NoFormat {
		d.JSON, _ = projectPayload(m.Record, MaxPayload)
	}
	return d
}

// difference returns the JSON Patch from the message's payload to the edited payload, both as masks let them be seen; nil
// when they cannot be compared. Whether a hidden value has changed is hidden too, because whoever edits it could guess it.
func difference(m *entity.Message, e *entity.Edit, by Masking, schemas entity.PartReader) []byte {
	now := *m
	now.Record = e.Apply(m.Record)
	old, edited := readable(m, schemas), readable(&now, schemas)
	if old.JSON == nil || edited.JSON == nil {
		return nil
	}
	before, _ := by.Read(old.JSON, old.Names).Shown()
	after, _ := by.Read(edited.JSON, edited.Names).Shown()
	patch, err := payload.Diff(before, after)
	if err != nil {
		return nil // the answer still reports that the payload changed
	}
	return patch
}
