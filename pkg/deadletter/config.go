package deadletter

import "errors"

// Config says what the records cannot: where the dead letters of a topic belong,
// and what producers write that nobody else knows.
type Config struct {
	// TopicMap is tried in order; the first rule that gives a usable topic wins
	// over headers and names.
	TopicMap []MapRule `mapstructure:"topic_map"`
	// Dialects are the user's own; each goes before the built-in ones.
	Dialects []DialectConfig `mapstructure:"dialects"`
	// UberDLQTopics are patterns of the dead-letter topics whose keys hold the
	// position as uber-go/kafka-client writes it. It must be said, since nearly any
	// bytes could be such a key.
	UberDLQTopics []string `mapstructure:"uber_dlq_topics"`
	// Origins declare which original topics the records of each dead-letter topic may
	// claim. Automatic retry takes declared and mapped origins only.
	Origins []OriginRule `mapstructure:"origins"`
	// OriginTrust is TrustHeader or TrustDeclared: what an origin that no declaration
	// is about is worth.
	OriginTrust string `mapstructure:"origin_trust"`
	// PointerTopics are patterns of the dead-letter topics whose records may point to
	// the record that failed instead of holding it, as share groups write them.
	PointerTopics []string `mapstructure:"pointer_topics"`
}

// MapRule maps dead-letter topics to their original.
type MapRule struct {
	// Pattern is a glob or an anchored regular expression, as in ParsePatterns.
	Pattern string `mapstructure:"pattern"`
	// Original is the topic's name. $1 or ${1} stands for what the first group
	// of the pattern matched; in a glob every * is a group.
	Original string `mapstructure:"original"`
}

// DialectConfig is a dialect that a user describes: which headers tell that it
// wrote a record, and which say what. "" means that it has no such header. Numbers
// are text or big-endian, times epoch or ISO 8601.
type DialectConfig struct {
	// Name is what messages show; no built-in dialect has it.
	Name string `mapstructure:"name"`
	// Topics are patterns of the dead-letter topics that are meant; none means all.
	Topics []string `mapstructure:"topics"`
	// Anchors are the headers that a record must have, all of them.
	Anchors []string `mapstructure:"anchors"`

	// Where it failed.
	Topic     string `mapstructure:"topic"`
	Partition string `mapstructure:"partition"`
	Offset    string `mapstructure:"offset"`
	Timestamp string `mapstructure:"timestamp"`

	// Why it failed.
	Class    string `mapstructure:"class"`
	Message  string `mapstructure:"message"`
	Stack    string `mapstructure:"stack"`
	Group    string `mapstructure:"group"`
	Attempts string `mapstructure:"attempts"`

	// NewestFirst: of a repeated header the first is the latest. Most producers
	// append, so the last is.
	NewestFirst bool `mapstructure:"newest_first"`
	// Strip are further headers that a replay leaves behind: names, or prefixes
	// that end with *. Those that are read are left behind anyway.
	Strip []string `mapstructure:"strip"`
}

// DefaultConfig maps nothing, declares nothing and trusts headers.
func DefaultConfig() Config { return Config{OriginTrust: TrustHeader} }

// Validate reports everything that cannot work. Whether an original is itself a
// dead-letter topic is FromConfig's to say, which knows the patterns.
func (c Config) Validate() error {
	_, errDecoder := FromConfig(c, Patterns{})
	_, errOrigins := NewOrigins(c)
	_, errPointers := c.Pointers()
	return errors.Join(errDecoder, errOrigins, errPointers)
}

// Pointers returns the dead-letter topics whose pointers are followed.
func (c Config) Pointers() (Patterns, error) {
	if len(c.PointerTopics) == 0 {
		return Patterns{}, nil
	}
	return parsePatterns("kafka.pointer_topics", c.PointerTopics)
}
