package deadletter

// Config says what the records cannot: where the dead letters of a topic belong.
type Config struct {
	// TopicMap is tried in order; the first rule that gives a usable topic wins
	// over headers and names.
	TopicMap []MapRule `mapstructure:"topic_map"`
}

// MapRule maps dead-letter topics to their original.
type MapRule struct {
	// Pattern is a glob or an anchored regular expression, as in ParsePatterns.
	Pattern string `mapstructure:"pattern"`
	// Original is the topic's name. $1 or ${1} stands for what the first group
	// of the pattern matched; in a glob every * is a group.
	Original string `mapstructure:"original"`
}

// DefaultConfig maps nothing.
func DefaultConfig() Config { return Config{} }

// Validate reports every rule that cannot work. Whether an original is itself a
// dead-letter topic is New's to say, which knows the patterns.
func (c Config) Validate() error {
	_, err := compileRules(c.TopicMap)
	return err
}
