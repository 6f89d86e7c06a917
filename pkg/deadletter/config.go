package deadletter

import "errors"

// Config adds information that records do not have: original topics, and the headers of unknown producers.
type Config struct {
	// TopicMap is tried in order; the first rule that gives a usable topic takes precedence over headers and names.
	TopicMap []MapRule `mapstructure:"topic_map"`
	// Dialects are the user's own; they are tried before the built-in dialects.
	Dialects []DialectConfig `mapstructure:"dialects"`
	// UberDLQTopics are patterns of the dead-letter topics whose keys hold the position as uber-go/kafka-client writes it.
	// The patterns must be configured, because nearly any bytes could be such a key.
	UberDLQTopics []string `mapstructure:"uber_dlq_topics"`
	// Origins declare the original topics of dead-letter topics. Automatic retry sends only messages whose original
	// topic is declared or mapped.
	Origins []OriginRule `mapstructure:"origins"`
	// OriginTrust is TrustHeader or TrustDeclared: whether an origin without a declaration is trusted.
	OriginTrust string `mapstructure:"origin_trust"`
	// PointerTopics are patterns of the dead-letter topics whose pointers to records, as share groups write them, are
	// followed.
	PointerTopics []string `mapstructure:"pointer_topics"`
	// ShareGroupTopics are patterns of the share groups' dead-letter topics that are read; with an empty list, none of
	// these topics is read. When installations share a cluster, each names the topics of its own share groups.
	ShareGroupTopics []string `mapstructure:"share_group_topics"`
}

// MapRule maps dead-letter topics to their original.
type MapRule struct {
	// Pattern is a glob or an anchored regular expression, as in ParsePatterns.
	Pattern string `mapstructure:"pattern"`
	// Original is the topic's name. $1 or ${1} is the pattern's first group; in a glob every * is a group.
	Original string `mapstructure:"original"`
}

// DialectConfig is a user's dialect: the headers that identify it, and the header of each field. "" means that the
// dialect has no such header. Numbers are text or big-endian, times epoch or ISO 8601.
type DialectConfig struct {
	// Name is shown with messages; it must differ from those of the built-in dialects.
	Name string `mapstructure:"name"`
	// Topics are patterns of the dead-letter topics of this dialect; none means all.
	Topics []string `mapstructure:"topics"`
	// Anchors are the headers that a record must have, all of them.
	Anchors []string `mapstructure:"anchors"`

	// The headers that say where the record failed.
	Topic     string `mapstructure:"topic"`
	Partition string `mapstructure:"partition"`
	Offset    string `mapstructure:"offset"`
	Timestamp string `mapstructure:"timestamp"`

	// The headers that say why the record failed.
	Class    string `mapstructure:"class"`
	Message  string `mapstructure:"message"`
	Stack    string `mapstructure:"stack"`
	Group    string `mapstructure:"group"`
	Attempts string `mapstructure:"attempts"`

	// NewestFirst means that of several headers with the same name, the first is the latest. By default the last is the
	// latest, because most producers append.
	NewestFirst bool `mapstructure:"newest_first"`
	// Strip lists further headers that a replay removes, in addition to those that are read: names, or prefixes with
	// *.
	Strip []string `mapstructure:"strip"`
}

// DefaultConfig maps nothing, declares nothing, trusts headers, and reads the topics of all share groups.
func DefaultConfig() Config { return Config{OriginTrust: TrustHeader, ShareGroupTopics: []string{"*"}} }

// Validate reports every error except originals that are dead-letter topics, which New refuses.
func (c Config) Validate() error {
	_, errDecoder := New(c, Patterns{})
	_, errOrigins := NewOrigins(c)
	_, errPointers := c.Pointers()
	_, errShares := c.ShareTopics()
	return errors.Join(errDecoder, errOrigins, errPointers, errShares)
}

// Pointers returns the patterns of dead-letter topics whose pointers are followed.
func (c Config) Pointers() (Patterns, error) {
	return optionalPatterns("kafka.pointer_topics", c.PointerTopics)
}

// ShareTopics returns the patterns of the share groups' dead-letter topics that are read.
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
