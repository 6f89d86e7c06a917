package deadletter

import "github.com/dlq-manager/dlq-manager/pkg/entity"

// The methods below work on a message that is stored with its key and headers.

// StackTraceOf does the same as StackTrace, for a stored message: the stack trace is read from the headers and not
// stored separately.
func (d *Decoder) StackTraceOf(m entity.Message) string {
	return d.StackTrace(m.Source.Topic, m.Record)
}

// ExplainMessage does the same as Explain, for a stored message; the stored source of the origin, such as an operator,
// takes precedence.
func (d *Decoder) ExplainMessage(m entity.Message) entity.Explanation {
	return d.Explain(m.Source.Topic, m.Record, m.Source.Timestamp,
		func(topic string) bool { return topic == m.OriginalTopic }).Of(&m)
}

// IsPointer reports whether the message's record has no value because it only points to the record that failed.
func (d *Decoder) IsPointer(m *entity.Message) bool { return IsPointer(m.Record) }

// StripsHeader reports whether a replay to target removes a header of that name.
func (d *Decoder) StripsHeader(dialect, target, name string) bool {
	return len(d.Strip(dialect, target, []entity.Header{{Key: name}})) == 0
}

// MapTopic returns the original topic by rules, then by the configuration; "" when there is none, or when the rules are
// invalid.
func (d *Decoder) MapTopic(rules []entity.TopicRule, dlqTopic string) string {
	other, err := d.WithRules(rules)
	if err != nil {
		return ""
	}
	return other.Mapped(dlqTopic)
}
