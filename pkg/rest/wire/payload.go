package wire

import (
	"unicode/utf8"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

const (
	// MaxPayload is the size in bytes of the largest value that the answer for a single message shows; MaxListPayload
	// is the same for lists.
	MaxPayload     = 1 << 20
	MaxListPayload = repository.ListValueLimit

	// maxDepth is how deep the JSON of a payload may nest to be shown. Common JSON readers stop at a depth of 256, and
	// an answer adds some levels around the payload.
	maxDepth = 200
)

// Reasons why a payload is not shown. The payload route sends the bytes of such a payload, except for the reason
// unreadable. For the reasons overLimit and pointer, that route fetches the bytes from Kafka.
const (
	NotJSON   = "not_json"
	TooDeep   = "too_deep"
	TooLarge  = "too_large"
	overLimit = "over_limit"
	notAsked  = "not_asked"
	// the message stands for a range of offsets whose records cannot be read.
	unreadable = "unreadable"
	pointer    = "pointer" // the dead letter only names the position of its record
)

// projectPayload returns the value if it can be part of a JSON answer, else nil and the reason. For a missing value,
// the results text and omitted are both empty.
func projectPayload(r entity.Record, limit int) (text []byte, omitted string) {
	switch {
	case r.State == entity.ValueOverLimit:
		return nil, overLimit
	case r.State == entity.ValueUnreadable:
		return nil, unreadable
	case r.State == entity.ValueNotLoaded || len(r.Value) > limit:
		return nil, TooLarge
	case r.State == entity.ValueMissing || r.Value == nil:
		return nil, ""
	case !utf8.Valid(r.Value):
		return nil, NotJSON
	}
	switch form := payload.Scan(r.Value); {
	case form.Depth > payload.MaxScan:
		return nil, TooDeep
	case !form.Valid:
		return nil, NotJSON
	case form.Depth > maxDepth:
		return nil, TooDeep
	}
	return r.Value, ""
}

// payloadSize returns the value's length in bytes, nil when there is no value.
func payloadSize(r entity.Record) *int64 {
	size := r.Size
	switch r.State {
	case entity.ValueMissing, entity.ValueUnreadable:
		return nil
	case entity.ValueStored, entity.ValueFromPayload:
		if r.Value == nil {
			return nil
		}
		size = int64(len(r.Value))
	case entity.ValueNotLoaded, entity.ValueOverLimit:
	}
	return &size
}
