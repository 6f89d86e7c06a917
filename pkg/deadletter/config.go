package deadletter

import "errors"

// Config adds what records do not say: the original topics of dead-letter topics, and the headers of producers that
// dlq-manager does not know.
type Config struct {
	// TopicMap is tried in order; the first rule that gives a usable original topic has precedence over the record's
	// headers and the name of the dead-letter topic.
	TopicMap []MapRule `mapstructure:"topic_map"`
	// Dialects are the user's own dialects; they are tried before the built-in ones.
	Dialects []DialectConfig `mapstructure:"dialects"`
	// KeepHeaders are globs of headers' names. A replay keeps these headers although a dead-letter producer writes them.
	KeepHeaders []string `mapstructure:"keep_headers"`
	// UberDLQTopics are patterns of the dead-letter topics in whose keys uber-go/kafka-client writes the position of the
	// record that failed. The patterns must be configured, because nearly any bytes could be a key that
	// uber-go/kafka-client wrote.
	UberDLQTopics []string `mapstructure:"uber_dlq_topics"`
	// Origins declare the original topics of dead-letter topics. Automatic retry sends only messages whose original
	// topic is declared or mapped.
	Origins []OriginRule `mapstructure:"origins"`
	// OriginTrust is TrustHeader or TrustDeclared. It says whether an original topic without a declaration is trusted.
	OriginTrust string `mapstructure:"origin_trust"`
	// PointerTopics are patterns of dead-letter topics. Only for dead letters in topics that match PointerTopics,
	// dlq-manager reads the record to which the dead letter points.
	PointerTopics []string `mapstructure:"pointer_topics"`
	// ShareGroupTopics are patterns of the share groups' dead-letter topics that are read; with an empty list, none of
	// these topics is read. When installations share a cluster, each names the topics of its own share groups.
	ShareGroupTopics []string `mapstructure:"share_group_topics"`
}

// MapRule gives the records of some dead-letter topics their original topic.
type MapRule struct {
	// Pattern is a glob or an anchored regular expression, as in ParsePatterns.
	Pattern string `mapstructure:"pattern"`
	// Original is the name of the original topic. In Original, $1 or ${1} stands for the text that the first group of the
	// pattern matched; in a glob every * is a group.
	Original string `mapstructure:"original"`
}

// DialectConfig defines a user's dialect: the headers by which it is recognised, and the name of the header for each
// field, "" for a field without a header. Numbers may be written as text or big-endian, times as numbers since 1970 or
// in ISO 8601.
type DialectConfig struct {
	// Name is shown with messages. It must differ from the names of the built-in dialects.
	Name string `mapstructure:"name"`
	// Topics are patterns of the dead-letter topics in which this dialect is used; an empty list means all of them.
	Topics []string `mapstructure:"topics"`
	// Anchors are the headers by which the dialect is recognised: a record must have all of them.
	Anchors []string `mapstructure:"anchors"`

	// Headers that say where the record failed.
	Topic     string `mapstructure:"topic"`
	Partition string `mapstructure:"partition"`
	Offset    string `mapstructure:"offset"`
	Timestamp string `mapstructure:"timestamp"`

	// Headers that say why the record failed.
	Class    string `mapstructure:"class"`
	Message  string `mapstructure:"message"`
	Stack    string `mapstructure:"stack"`
	Group    string `mapstructure:"group"`
	Attempts string `mapstructure:"attempts"`

	// NewestFirst means that the first of several headers with the same name belongs to the latest failure. By default the
	// last of several headers with the same name does, because most producers append headers.
	NewestFirst bool `mapstructure:"newest_first"`
	// Strip lists further headers that a replay removes, in addition to those that the dialect reads. Each entry is a
	// name, or a prefix followed by *.
	Strip []string `mapstructure:"strip"`
}

// DefaultConfig maps and declares no topics, trusts headers, and reads the dead-letter topics of all share groups.
func DefaultConfig() Config { return Config{OriginTrust: TrustHeader, ShareGroupTopics: []string{"*"}} }

// Validate reports every error, except rules whose original topic is a dead-letter topic: only New knows the
// dead-letter topics.
func (c Config) Validate() error {
	_, errDecoder := New(c, Patterns{})
	_, errOrigins := NewOrigins(c)
	_, errPointers := c.Pointers()
	_, errShares := c.ShareTopics()
	return errors.Join(errDecoder, errOrigins, errPointers, errShares)
}

// Pointers returns the patterns in PointerTopics.
func (c Config) Pointers() (Patterns, error) {
	return optionalPatterns("kafka.pointer_topics", c.PointerTopics)
}

// ShareTopics returns the patterns in ShareGroupTopics.
func (c Config) ShareTopics() (Patterns, error) {
	return optionalPatterns("kafka.share_group_topics", c.ShareGroupTopics)
}

// optionalPatterns returns the patterns of a setting; an empty list matches no topic.
func optionalPatterns(field string, list []string) (Patterns, error) {
	if len(list) == 0 {
		return Patterns{}, nil
	}
	return parsePatterns(field, list)
}
