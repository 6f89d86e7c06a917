package deadletter

import (
	"slices"
	"strings"

	"github.com/dlq-manager/dlq-manager/pkg/deadletter/internal/headername"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// HeaderMasks say which headers are masked.
type HeaderMasks interface {
	// Header reports whether the values of headers of that name are masked.
	Header(name string) bool
	// HeaderLike reports whether any header with the given name could be masked. The name is given in lower case and
	// without hyphens, underscores and dots.
	HeaderLike(folded string) bool
}

// Masking finds the fields of a dead letter that were read from masked headers. It is safe for concurrent use.
type Masking struct {
	decoder *Decoder
	masks   HeaderMasks
	fields  entity.MaskedFields
}

// Masking returns a Masking of the fields that this decoder reads.
func (d *Decoder) Masking(masks HeaderMasks) *Masking {
	return &Masking{decoder: d, masks: masks, fields: d.maskedFields(masks)}
}

// Fields returns the fields that this decoder reads from masked headers in at least one kind of record.
func (k *Masking) Fields() entity.MaskedFields { return k.fields }

// Of returns the fields of a stored message that were read from a masked header: those fields whose values change when
// the record is decoded without its masked headers. For a message without all its headers, it returns Fields.
func (k *Masking) Of(m *entity.Message) entity.MaskedFields {
	if k.fields == (entity.MaskedFields{}) {
		return entity.MaskedFields{}
	}
	if m.Record.HeadersOmitted {
		return k.fields
	}
	hidden := func(h entity.Header) bool { return h.Value != nil && k.masks.Header(h.Key) }
	if !slices.ContainsFunc(m.Record.Headers, hidden) {
		return entity.MaskedFields{}
	}
	exists := func(topic string) bool { return topic == m.OriginalTopic }
	read := func(headers []entity.Header) Reading {
		rec := m.Record
		rec.Headers = headers
		return k.decoder.Decode(m.Source.Topic, rec, m.Source.Timestamp, exists)
	}
	shown := read(slices.DeleteFunc(slices.Clone(m.Record.Headers), hidden))
	return entity.MaskedFields{
		ErrorMessage:  shown.ErrorMessage != m.ErrorMessage,
		ErrorClass:    shown.Failure.Class != m.Failure.Class,
		StackTrace:    shown.Failure.StackTrace != read(m.Record.Headers).Failure.StackTrace,
		ConsumerGroup: shown.Failure.ConsumerGroup != m.Failure.ConsumerGroup,
	}
}

// maskedFields returns the fields that may be read from a masked header. Error message, class and stack trace are
// masked together, because a dialect may read one of them from the header that contains another.
func (d *Decoder) maskedFields(masks HeaderMasks) entity.MaskedFields {
	failure := masks.Header("error") || d.masksAlias(masks, fieldMessage, fieldClass, fieldStack)
	group := masks.Header(hexkitEvent) || d.masksAlias(masks, fieldGroup)
	for _, dialect := range d.dialects {
		failure = failure || slices.ContainsFunc(slices.Concat(dialect.causes, dialect.classes, dialect.messages, dialect.stacks), masks.Header)
		group = group || slices.ContainsFunc(dialect.groups, masks.Header)
	}
	return entity.MaskedFields{ErrorMessage: failure, ErrorClass: failure, StackTrace: failure, ConsumerGroup: group}
}

// masksAlias reports whether a header of the generic dialect for one of the fields could be masked, in any spelling of
// its name.
func (*Decoder) masksAlias(masks HeaderMasks, fields ...field) bool {
	prefixes := append([]string{""}, headername.Prefixes...)
	for name, a := range aliases {
		if !slices.Contains(fields, a.field) {
			continue
		}
		for _, first := range prefixes {
			for _, second := range prefixes {
				if masks.HeaderLike(strings.Join([]string{first, second, name}, "")) {
					return true
				}
			}
		}
	}
	return false
}
