package entity

import "time"

// TopicRule sets the original topic for the messages of all dead-letter topics that match Pattern.
type TopicRule struct {
	Pattern  string // see ParseTopicPattern
	Original string // $1 or ${1} is the text that the pattern's first group matched; in a glob every * is a group
}

// Mapping is the ordered list of rules that operators have made. The first matching rule that gives a usable topic
// decides the original topic. The mapping has precedence over the rules of the configuration, over headers and over the
// names of topics.
type Mapping struct {
	Rules     []TopicRule
	Version   int64 // increases with each change; 0 until the mapping is first set
	UpdatedAt time.Time
	UpdatedBy string
}

// MappingConflictError reports that the mapping has changed since the caller read it. Its kind is ErrConflict.
type MappingConflictError struct{ Version int64 }

func (e *MappingConflictError) Error() string {
	return "the mapping has changed since it was read; read it again"
}

// Is makes the error's kind ErrConflict.
func (e *MappingConflictError) Is(target error) bool { return target == ErrConflict }
