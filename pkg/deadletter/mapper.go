package deadletter

import "github.com/dlq-manager/dlq-manager/pkg/entity"

// Mapper understands rules before anybody keeps them.
type Mapper struct{ decoder *Decoder }

// Mapper returns what checks and tries rules as this decoder would use them.
func (d *Decoder) Mapper() Mapper { return Mapper{decoder: d} }

// Validate is Decoder.CheckRules.
func (m Mapper) Validate(rules []entity.TopicRule) error { return m.decoder.CheckRules(rules) }

// Configured is Decoder.ConfiguredRules.
func (m Mapper) Configured() []entity.TopicRule { return m.decoder.ConfiguredRules() }

// Mapped returns the original topic that rules, and behind them those of the
// configuration, give for a dead-letter topic; "" when they give none or are wrong.
func (m Mapper) Mapped(rules []entity.TopicRule, dlqTopic string) string {
	d, err := m.decoder.WithRules(rules)
	if err != nil {
		return ""
	}
	return d.Mapped(dlqTopic)
}

// ExplainMessage is Explain for a message that is stored with its key and headers.
// What the message rests on, such as an operator's word, stands above what would be
// read today.
func (d *Decoder) ExplainMessage(m entity.Message) entity.Explanation {
	return d.Explain(m.Source.Topic, m.Record, m.Source.Timestamp,
		func(topic string) bool { return topic == m.OriginalTopic }).Of(&m)
}
