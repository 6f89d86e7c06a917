package rest

import "github.com/dlq-manager/dlq-manager/pkg/entity"

// Dialects knows what dead-letter producers write into headers, and the rules that say
// where dead letters belong.
type Dialects interface {
	// StackTraceOf returns a message's stack trace, which may be in its headers only;
	// "" when none is known.
	StackTraceOf(m entity.Message) string

	// ExplainMessage says where everything that is known of the failure was read.
	ExplainMessage(m entity.Message) entity.Explanation

	// IsPointer reports whether the record has no value because it only points to the
	// record that failed.
	IsPointer(m *entity.Message) bool

	// StripsHeader reports whether replays to the topic take such a header out, because
	// dead-letter producers of that dialect write it: no edit may set it.
	StripsHeader(dialect, topic, name string) bool

	// CheckRules reports every rule that cannot work.
	CheckRules(rules []entity.TopicRule) error

	// MapTopic returns the original topic that rules, and the configured ones after
	// them, give for a dead-letter topic; "" when they give none.
	MapTopic(rules []entity.TopicRule, dlqTopic string) string

	// ConfiguredRules returns the rules of the configuration, in their order.
	ConfiguredRules() []entity.TopicRule
}

// WithDialects gives what is known of dead letters. Without it the server knows of a
// message what is stored, and of rules nothing.
func WithDialects(d Dialects) Option { return func(s *Server) { s.dialects = d } }

// noDialects knows nothing but what is stored.
type noDialects struct{}

func (noDialects) StackTraceOf(m entity.Message) string             { return m.Failure.StackTrace }
func (noDialects) ExplainMessage(entity.Message) entity.Explanation { return entity.Explanation{} }
func (noDialects) IsPointer(*entity.Message) bool                   { return false }
func (noDialects) StripsHeader(string, string, string) bool         { return false }
func (noDialects) CheckRules([]entity.TopicRule) error              { return nil }
func (noDialects) MapTopic([]entity.TopicRule, string) string       { return "" }
func (noDialects) ConfiguredRules() []entity.TopicRule              { return nil }
