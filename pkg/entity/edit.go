package entity

import "github.com/google/uuid"

// Edit is how one attempt's record differs from its message. The message itself
// is never changed. What is not set goes as it is.
type Edit struct {
	Topic string // target, other than the original topic; "" for that

	SetValue bool
	Value    []byte // nil: null
	SetKey   bool
	Key      []byte // nil: null
	// SetHeaders: Headers stand in place of all that would be kept of the record's.
	SetHeaders bool
	Headers    []Header

	// Patch is the JSON Patch (RFC 6902) of a redrive that made Value; nil for an
	// edit by hand.
	Patch []byte
}

// Empty reports whether nothing differs.
func (e *Edit) Empty() bool {
	return e == nil || e.Topic == "" && !e.SetValue && !e.SetKey && !e.SetHeaders
}

// Apply returns the record as it is to be sent. A value that was set counts as
// stored, whatever became of the one before.
func (e *Edit) Apply(r Record) Record {
	if e == nil {
		return r
	}
	if e.SetValue {
		r.Value, r.Size, r.State, r.SHA256, r.Limit = e.Value, int64(len(e.Value)), ValueStored, nil, ""
	}
	if e.SetKey {
		r.Key, r.KeyOmitted = e.Key, 0
	}
	if e.SetHeaders {
		r.Headers, r.HeadersOmitted = e.Headers, false
	}
	return r
}

// PatchSample shows what a redrive's patch makes of one message.
type PatchSample struct {
	MessageID     uuid.UUID
	Before, After []byte // JSON; After is nil when the patch does not fit
	Reason        string // why it does not fit; "" when it does
}
