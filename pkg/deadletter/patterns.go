package deadletter

import "github.com/dlq-manager/dlq-manager/pkg/entity"

const patternField = "kafka.dlq_topic_pattern"

// Patterns say which topics are dead-letter topics.
type Patterns = entity.TopicPatterns

// ParsePatterns does the same as entity.ParseTopicPatterns. Its errors name the setting of the patterns.
func ParsePatterns(list ...string) (Patterns, error) {
	return entity.ParseTopicPatterns(patternField, list...)
}
