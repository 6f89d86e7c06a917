package entity

import (
	"slices"

	"github.com/google/uuid"
)

// Edit overrides parts of a message's record when it is sent; the message itself never changes. Parts that are not
// set are sent unchanged.
type Edit struct {
	Topic string // target topic; "" for the original topic

	SetValue bool
	Value    []byte // nil: null
	SetKey   bool
	Key      []byte // nil: null
	// SetHeaders: Headers replace all headers that would be kept of the record.
	SetHeaders bool
	Headers    []Header

	// Patch is the redrive's JSON Patch (RFC 6902) that produced Value; nil for an edit by hand.
	Patch []byte
}

// Empty reports whether the edit changes nothing. A nil edit is empty.
func (e *Edit) Empty() bool {
	return e == nil || e.Topic == "" && !e.SetValue && !e.SetKey && !e.SetHeaders
}

// Apply returns the record to send. A value that the edit sets counts as stored, also when the original value could
// not be stored.
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

// ReplaceHeader replaces the header of that name in the headers that are sent with r; nil changes nothing.
func (e *Edit) ReplaceHeader(r Record, by *Header) {
	if by == nil {
		return
	}
	if !e.SetHeaders {
		e.SetHeaders, e.Headers = true, r.Headers
	}
	others := slices.DeleteFunc(slices.Clone(e.Headers), func(h Header) bool { return h.Key == by.Key })
	e.Headers = append(others, *by)
}

// PatchSample shows one message's payload before and after a redrive's patch.
type PatchSample struct {
	Topic         string // original
	MessageID     uuid.UUID
	Before, After []byte // JSON; After is nil when the patch cannot be applied
	Reason        string // why it cannot be applied; "" when it can
}
