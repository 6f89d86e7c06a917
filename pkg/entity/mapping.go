package entity

import "time"

// TopicRule says where the dead letters of matching dead-letter topics belong.
type TopicRule struct {
	Pattern  string // as in ParseTopicPattern
	Original string // $1 or ${1} stands for what the first group of the pattern matched; in a glob every * is one
}

// Mapping is the ordered list of rules that operators keep: the first that gives a
// usable topic wins, over those of the configuration, over headers and names.
type Mapping struct {
	Rules     []TopicRule
	Version   int64 // counts up with each change; 0: nobody has set any
	UpdatedAt time.Time
	UpdatedBy string
}

// MappingConflictError is a change of a mapping that somebody else has changed
// meanwhile. Its kind is ErrConflict.
type MappingConflictError struct{ Version int64 }

func (e *MappingConflictError) Error() string {
	return "the mapping was changed by somebody else meanwhile; read it again"
}

// Is makes the error's kind ErrConflict.
func (e *MappingConflictError) Is(target error) bool { return target == ErrConflict }
