package entity

import "time"

// TopicRule gives the original topic for the messages of matching dead-letter topics.
type TopicRule struct {
	Pattern  string // as in ParseTopicPattern
	Original string // $1 or ${1} is the text that the pattern's first group matched; in a glob every * is a group
}

// Mapping is the ordered list of the operators' rules. The first rule that gives a usable topic wins; it takes
// precedence over the rules of the configuration, headers and names.
type Mapping struct {
	Rules     []TopicRule
	Version   int64 // increases with each change; 0: never set
	UpdatedAt time.Time
	UpdatedBy string
}

// MappingConflictError says that the mapping changed since the caller read it. Its kind is ErrConflict.
type MappingConflictError struct{ Version int64 }

func (e *MappingConflictError) Error() string {
	return "the mapping has changed since it was read; read it again"
}

// Is makes the error's kind ErrConflict.
func (e *MappingConflictError) Is(target error) bool { return target == ErrConflict }
