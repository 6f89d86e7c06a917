package entity

// DerivedFrom says what a value that we know of a dead letter rests on.
type DerivedFrom string

const (
	// ByMapping: a rule named it.
	ByMapping DerivedFrom = "mapping"
	// ByHeader: a header that says so by its name.
	ByHeader DerivedFrom = "header"
	// ByCompanion: a header whose name alone would not tell whose it is; others
	// beside it did.
	ByCompanion DerivedFrom = "companion"
	// ByName: the dead-letter topic's name.
	ByName DerivedFrom = "name"
	// ByRecord: the record's own timestamp or key.
	ByRecord DerivedFrom = "record"
	// ByOperator: somebody said so for this message.
	ByOperator DerivedFrom = "operator"
	// ByNothing: the value is not known.
	ByNothing DerivedFrom = "none"
)

// Certainty is how much a derived value can be relied on.
type Certainty string

const (
	// CertaintyHigh: somebody decided it, or a producer wrote it under a name of its own.
	CertaintyHigh Certainty = "high"
	// CertaintyMedium: the header's name is one that others use too.
	CertaintyMedium Certainty = "medium"
	// CertaintyLow: guessed from a name.
	CertaintyLow Certainty = "low"
	// CertaintyNone: there is no value.
	CertaintyNone Certainty = "none"
)

// Derived says where one value was learnt.
type Derived struct {
	Source  DerivedFrom
	Dialect string // that was read; "" when none was
	Header  string // its name; "" when the value is from no header
	// Occurrence is the header's place among those of the same name, 0 for the
	// first in the list; it means nothing without Header.
	Occurrence int
	Confidence Certainty
}

// NotDerived is what is said of a value that is not known.
func NotDerived() Derived { return Derived{Source: ByNothing, Confidence: CertaintyNone} }

// MaskedFields are those fields of a dead letter's failure that masks of headers hide,
// because they were read from a masked header.
type MaskedFields struct {
	ErrorMessage, ErrorClass, StackTrace, ConsumerGroup bool
}

// Group reports whether the texts of error groups are masked: each is made of a class,
// a message and a stack trace of any of its messages.
func (f MaskedFields) Group() bool { return f.ErrorMessage || f.ErrorClass || f.StackTrace }

// Explanation says where everything that a dead letter tells of itself was learnt.
type Explanation struct {
	OriginalTopic     Derived
	OriginalPartition Derived
	OriginalOffset    Derived
	OriginalTimestamp Derived
	ErrorMessage      Derived
	ErrorClass        Derived
	StackTrace        Derived
	ConsumerGroup     Derived
	ConsumerAttempts  Derived

	Hops []Hop // every failure that the record tells of, the oldest first
}

// Hop is one failure of a record that failed more than once.
type Hop struct {
	Dialect   string
	Topic     string // where it failed then, a dead-letter topic included; "" when not said
	Partition *int32 // nil when not known
	Offset    *int64 // nil when not known
}

// Fields returns what is said of every field, by the name that the field has
// everywhere.
func (e Explanation) Fields() map[string]Derived {
	return map[string]Derived{
		"original_topic":     e.OriginalTopic,
		"original_partition": e.OriginalPartition,
		"original_offset":    e.OriginalOffset,
		"original_timestamp": e.OriginalTimestamp,
		"error_message":      e.ErrorMessage,
		"error_class":        e.ErrorClass,
		"stack_trace":        e.StackTrace,
		"consumer_group":     e.ConsumerGroup,
		"consumer_attempts":  e.ConsumerAttempts,
	}
}

// Of returns the explanation as it holds for a stored message. What is derived
// again follows the rules and the cluster of today, and an operator may have said
// otherwise: where the message's origin rests on something else, that is said and
// not what would be derived now.
func (e Explanation) Of(m *Message) Explanation {
	if from := sourceOf(m.Origin.Confidence); from != e.OriginalTopic.Source.rank() {
		e.OriginalTopic = derivedBy(from)
	}
	if m.Origin.Partition == nil {
		e.OriginalPartition = NotDerived()
	}
	if m.Origin.Offset == nil {
		e.OriginalOffset = NotDerived()
	}
	if m.Origin.Timestamp.IsZero() {
		e.OriginalTimestamp = NotDerived()
	}
	return e
}

// rank is the source as a message's origin tells it, which knows no finer ones.
func (d DerivedFrom) rank() DerivedFrom {
	if d == ByCompanion || d == ByRecord {
		return ByHeader
	}
	return d
}

// sourceOf is the source that a message's origin tells of.
func sourceOf(c Confidence) DerivedFrom {
	if c == "" {
		return ByNothing
	}
	return DerivedFrom(c) // they have the same words
}

func derivedBy(from DerivedFrom) Derived {
	sure := map[DerivedFrom]Certainty{
		ByMapping: CertaintyHigh, ByOperator: CertaintyHigh, ByHeader: CertaintyHigh, ByName: CertaintyLow,
	}[from]
	if sure == "" {
		return NotDerived()
	}
	return Derived{Source: from, Confidence: sure}
}
