package wire

import (
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
)

// Masks are the masking rules, which replace the values of masked fields in payloads and headers. They are safe for
// concurrent use.
type Masks interface {
	// Empty reports whether the rules mask nothing.
	Empty() bool
	// Payload returns JSON with masked values replaced and the other bytes unchanged, and the paths of the replaced
	// values.
	Payload(value []byte) (masked []byte, names []string)
	// Header reports whether the values of headers of that name are masked.
	Header(name string) bool
	// CoversPath reports whether the value at the path, or a part of it, is masked.
	CoversPath(path payload.Path) bool
	// CoversPatch reports whether a patch reads or writes masked values.
	CoversPatch(patch *payload.Patch) bool
	// Patch returns a JSON Patch with its masked values replaced.
	Patch(patch []byte) []byte
}

// DerivedMasks says which fields of messages are masked because they were read from masked headers. It is safe for
// concurrent use.
type DerivedMasks interface {
	// Fields returns the fields that may come from a masked header in any message.
	Fields() entity.MaskedFields
	// Of returns the fields of a message that were read from a masked header.
	Of(m *entity.Message) entity.MaskedFields
}

// MaskedText replaces masked values.
const MaskedText = "***"

// Masking hides masked values in answers.
type Masking struct {
	Masks
	Derived DerivedMasks
}

// Parameter reports whether a condition with this parameter compares something that may have been read from a masked
// header.
func (m Masking) Parameter(name string) bool {
	masked := m.Derived.Fields()
	return name == "error_class" && masked.ErrorClass || name == "consumer_group" && masked.ConsumerGroup
}

// headers reports which headers have a masked value; nil: none.
func (m Masking) headers(headers []entity.Header) (hidden []bool) {
	for i, h := range headers {
		if !m.Header(h.Key) || h.Value == nil {
			continue
		}
		if hidden == nil {
			hidden = make([]bool, len(headers))
		}
		hidden[i] = true
	}
	return hidden
}
