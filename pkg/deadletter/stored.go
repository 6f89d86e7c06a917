package deadletter

import "github.com/dlq-manager/dlq-manager/pkg/entity"

// What follows answers for a message that is stored with its key and headers.

// StackTraceOf is StackTrace. It is in the headers and is not stored a second time.
func (d *Decoder) StackTraceOf(m entity.Message) string {
	return d.StackTrace(m.Source.Topic, m.Record)
}

// ExplainMessage is Explain, but what the message rests on, such as an operator's word, goes first.
func (d *Decoder) ExplainMessage(m entity.Message) entity.Explanation {
	return d.Explain(m.Source.Topic, m.Record, m.Source.Timestamp,
		func(topic string) bool { return topic == m.OriginalTopic }).Of(&m)
}

// IsPointer reports whether the message's record has no value because it only points to the record that failed.
func (d *Decoder) IsPointer(m *entity.Message) bool { return IsPointer(m.Record) }

// StripsHeader reports whether a replay to target takes a header of that name out.
func (d *Decoder) StripsHeader(dialect, target, name string) bool {
	return len(d.Strip(dialect, target, []entity.Header{{Key: name}})) == 0
}

// MapTopic returns the original topic by rules, then by the configuration; "" for none or wrong rules.
func (d *Decoder) MapTopic(rules []entity.TopicRule, dlqTopic string) string {
	other, err := d.WithRules(rules)
	if err != nil {
		return ""
	}
	return other.Mapped(dlqTopic)
}
