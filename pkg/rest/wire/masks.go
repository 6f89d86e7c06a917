package wire

import (
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
)

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
	*payload.Masks // nil: nothing is hidden by its path or its header's name
	Derived        DerivedMasks
	Schemas        bool // payloads are decoded with schemas, which may give masked values further names
}

// HidesKeyText reports whether the key in the condition of somebody else's filter is hidden. With schemas, so is every key
// in JSON: it may have a masked value by another name.
func (m Masking) HidesKeyText(key []byte) bool {
	return m.HidesKey(key) || m.Schemas && m.CoversPath(payload.Path{}) && len(key) > 0 && (key[0] == '{' || key[0] == '[')
}

// HidesKey reports whether a condition compares a key that masks hide, or that cannot be looked into.
func (m Masking) HidesKey(key []byte) bool {
	return key != nil && m.ReadPart(&entity.Record{Key: key}, entity.KeyPart, entity.Decoded{}).Hides()
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
