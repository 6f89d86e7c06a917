package rest

import "github.com/dlq-manager/dlq-manager/pkg/entity"

// Dialects reads the headers of dead-letter producers, and maps dead-letter topics by rules.
type Dialects interface {
	// StackTraceOf returns a message's stack trace, which may be in its headers only; "" for none.
	StackTraceOf(m entity.Message) string

	// ExplainMessage returns the source of each field of the failure.
	ExplainMessage(m entity.Message) entity.Explanation

	// IsPointer reports whether the record has no value because it only points to the record that failed.
	IsPointer(m *entity.Message) bool

	// StripsHeader reports whether replays to the topic remove such a header because producers of that dialect write
	// it; an edit must not set it.
	StripsHeader(dialect, topic, name string) bool

	// CheckRules reports every rule that cannot work.
	CheckRules(rules []entity.TopicRule) error

	// MapTopic returns the original topic of a dead-letter topic by rules, then by the configured ones; "" for none.
	MapTopic(rules []entity.TopicRule, dlqTopic string) string

	// ConfiguredRules returns the rules of the configuration, in their order.
	ConfiguredRules() []entity.TopicRule
}

// WithDialects sets the source of derived fields and mapping rules. Without it the server shows only stored fields,
// and has no rules.
func WithDialects(d Dialects) Option { return func(s *Server) { s.dialects = d } }

// noDialects derives nothing: only stored fields are shown.
type noDialects struct{}

func (noDialects) StackTraceOf(m entity.Message) string             { return m.Failure.StackTrace }
func (noDialects) ExplainMessage(entity.Message) entity.Explanation { return entity.Explanation{} }
func (noDialects) IsPointer(*entity.Message) bool                   { return false }
func (noDialects) StripsHeader(string, string, string) bool         { return false }
func (noDialects) CheckRules([]entity.TopicRule) error              { return nil }
func (noDialects) MapTopic([]entity.TopicRule, string) string       { return "" }
func (noDialects) ConfiguredRules() []entity.TopicRule              { return nil }
