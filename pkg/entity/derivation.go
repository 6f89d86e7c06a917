package entity

// DerivedFrom says from which kind of source a field of a dead letter was read.
type DerivedFrom string

const (
	// ByMapping: a mapping rule gave the value.
	ByMapping DerivedFrom = "mapping"
	// ByHeader: a header contains the value. One header shows its dialect, or the header belongs to no framework.
	ByHeader DerivedFrom = "header"
	// ByCompanion: a header contains the value. Only several headers together show its dialect.
	ByCompanion DerivedFrom = "companion"
	// ByName: the value comes from the name of the dead-letter topic.
	ByName DerivedFrom = "name"
	// ByRecord: the value is the record's own timestamp or key.
	ByRecord DerivedFrom = "record"
	// ByOperator: an operator set the value for this message.
	ByOperator DerivedFrom = "operator"
	// ByNothing: the value is not known.
	ByNothing DerivedFrom = "none"
)

// Certainty says how reliable a derived value is.
type Certainty string

const (
	// CertaintyHigh: an operator or a rule set the value, the record itself has it, or it is in a header of a dialect
	// that one header shows.
	CertaintyHigh Certainty = "high"
	// CertaintyMedium: the value is in a header of a dialect that only several headers show, or in a header that
	// belongs to no particular framework.
	CertaintyMedium Certainty = "medium"
	// CertaintyLow: the value was guessed from the name of a topic.
	CertaintyLow Certainty = "low"
	// CertaintyNone: there is no value.
	CertaintyNone Certainty = "none"
)

// Derived describes from where one value was read.
type Derived struct {
	Source  DerivedFrom
	Dialect string // dialect by whose rules the value was read; "" for none
	Header  string // name of the header; "" when the value is not from a header
	// Occurrence is the header's index among the headers of the same name, from 0; it has a meaning only when Header is
	// set.
	Occurrence int
	Confidence Certainty
}

// NotDerived returns the Derived of a value that is not known.
func NotDerived() Derived { return Derived{Source: ByNothing, Confidence: CertaintyNone} }

// MaskedFields says which fields of a failure are hidden, because they were read from headers that are masked.
type MaskedFields struct {
	ErrorMessage, ErrorClass, StackTrace, ConsumerGroup bool
}

// Group reports whether the texts of error groups must be masked: the texts of a group are made of the class, the error
// message and the stack trace of one of its messages.
func (f MaskedFields) Group() bool { return f.ErrorMessage || f.ErrorClass || f.StackTrace }

// Explanation says for each field of a failure from where in the dead letter it was read.
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

	Hops []Hop // all failures that the record reports, the oldest first

	// Envelope contains the names of the members for which the value looks like an envelope; nil when it does not, or when
	// the value is not loaded.
	Envelope []string
}

// ReplayHeaders says which headers of a message its replay removes, and which it keeps although a field was read from
// them.
type ReplayHeaders struct{ Removes, Keeps []string }

// Hop is one failure of a record that failed more than once.
type Hop struct {
	Dialect   string
	Topic     string // topic in which the record failed, possibly a dead-letter topic; "" when not known
	Partition *int32 // nil when not known
	Offset    *int64 // nil when not known
}

// Fields returns a map from the API's name of each field to the source from which the field was read.
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

// Of returns the explanation that fits the stored message m. An explanation is computed with the present rules and
// topics; since m was stored, rules and topics may have changed, and an operator may have set the original topic. So
// when the stored origin has another source, Of returns that source for the original topic. A partition, offset or
// timestamp that m does not have counts as not known.
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

// rank returns the source that a message's origin stores when the original topic was read from the source d. An origin
// distinguishes fewer sources than DerivedFrom.
func (d DerivedFrom) rank() DerivedFrom {
	if d == ByCompanion || d == ByRecord {
		return ByHeader
	}
	return d
}

// sourceOf converts the confidence that a message's origin stores to the source of its original topic.
func sourceOf(c Confidence) DerivedFrom {
	if c == "" {
		return ByNothing
	}
	return DerivedFrom(c) // all other values have the same text in both types
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
