package deadletter

import "github.com/dlq-manager/dlq-manager/pkg/entity"

// The methods below work on stored messages that are loaded with key and headers.

// StackTraceOf does the same as StackTrace, for a stored message: the stack trace is not stored separately and must be
// read from the headers.
func (d *Decoder) StackTraceOf(m entity.Message) string {
	return d.StackTrace(m.Source.Topic, m.Record)
}

// readAgain reads the record of a stored message.
func (c *decoding) readAgain(m *entity.Message) {
	original := m.OriginalTopic // the function must not hold m, or each message that is decoded is allocated
	c.exists = func(topic string) bool { return topic == original }
	c.read(m.Record, m.Source.Timestamp, nil)
}

// ExplainMessage does the same as Explain, for a stored message. When the stored origin has another source, such as an
// operator, the explanation names that source.
func (d *Decoder) ExplainMessage(m entity.Message) entity.Explanation {
	if !d.PositionHolds(&m) {
		m.Origin.Partition, m.Origin.Offset = nil, nil
	}
	e := d.Explain(m.Source.Topic, m.Record, m.Source.Timestamp,
		func(topic string) bool { return topic == m.OriginalTopic }).Of(&m)
	e.Envelope = d.Envelope(&m, m.Record.Value)
	return e
}

// IsPointer reports whether the message's record has no value because it only points to the record that failed.
func (d *Decoder) IsPointer(m *entity.Message) bool { return IsPointer(m.Record) }

// StripsHeader reports whether a replay of m to target removes headers of that name.
func (d *Decoder) StripsHeader(m *entity.Message, target, name string) bool {
	return d.removal(m, target, nil).removes(name)
}

// MapTopic returns the original topic of a dead-letter topic according to the given rules and then those of the
// configuration. It returns "" when no rule matches or the given rules are invalid.
func (d *Decoder) MapTopic(rules []entity.TopicRule, dlqTopic string) string {
	other, err := d.WithRules(rules)
	if err != nil {
		return ""
	}
	return other.Mapped(dlqTopic)
}
