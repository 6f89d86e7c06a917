package entity

import (
	"slices"

	"github.com/google/uuid"
)

// Edit changes parts of a message's record when the record is sent. The stored message never changes. Parts that the
// edit does not set are sent unchanged.
type Edit struct {
	Topic string // target topic; "" for the original topic

	SetValue bool
	Value    []byte // nil for Kafka's null
	SetKey   bool
	Key      []byte // nil for Kafka's null
	// SetHeaders means that Headers are sent in place of all headers of the message's record.
	SetHeaders bool
	Headers    []Header

	// Patch is the JSON Patch (RFC 6902) of the redrive that produced Value; nil when a person made the edit.
	Patch []byte
}

// Empty reports whether the edit changes nothing. A nil edit is empty.
func (e *Edit) Empty() bool {
	return e == nil || e.Topic == "" && !e.SetValue && !e.SetKey && !e.SetHeaders
}

// Apply returns the record to send. When the edit sets a value, the state of that value is ValueStored, even if the
// original value could not be stored.
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

// ReplaceHeader makes the edit send its headers, or those of the record r if it sets none, with one change: the given
// header, at the end, takes the place of all headers of its name. When that header is nil, ReplaceHeader changes
// nothing.
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

// PatchSample shows the payload of one message before and after the patch of a redrive.
type PatchSample struct {
	Topic         string // original topic
	MessageID     uuid.UUID
	Before, After []byte // JSON; After is nil when the patch cannot be applied to the message
	Names         Names  // names of the members of Before and After in their schema; nil without one
	Reason        string // why the patch cannot be applied; "" when it can
}
