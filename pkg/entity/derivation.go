package entity

// DerivedFrom is the kind of source from which a field of a dead letter was read.
type DerivedFrom string

const (
	// ByMapping: a mapping rule gave the value.
	ByMapping DerivedFrom = "mapping"
	// ByHeader: a header whose name only one dialect uses.
	ByHeader DerivedFrom = "header"
	// ByCompanion: a header whose name several dialects use; other headers of the record identify the dialect.
	ByCompanion DerivedFrom = "companion"
	// ByName: the dead-letter topic's name.
	ByName DerivedFrom = "name"
	// ByRecord: the record's own timestamp or key.
	ByRecord DerivedFrom = "record"
	// ByOperator: an operator set the value for this message.
	ByOperator DerivedFrom = "operator"
	// ByNothing: the value is not known.
	ByNothing DerivedFrom = "none"
)

// Certainty is how reliable a derived value is.
type Certainty string

const (
	// CertaintyHigh: an operator or a rule set it, or it is in a header that only one producer uses.
	CertaintyHigh Certainty = "high"
	// CertaintyMedium: other producers use the same header name.
	CertaintyMedium Certainty = "medium"
	// CertaintyLow: guessed from a topic's name.
	CertaintyLow Certainty = "low"
	// CertaintyNone: there is no value.
	CertaintyNone Certainty = "none"
)

// Derived describes the source of one value.
type Derived struct {
	Source  DerivedFrom
	Dialect string // whose rules read it; "" for none
	Header  string // name of the header; "" when the value is not from a header
	// Occurrence is the header's index among the headers of the same name, from 0; it is meaningful only with Header.
	Occurrence int
	Confidence Certainty
}

// NotDerived returns the source of a value that is not known.
func NotDerived() Derived { return Derived{Source: ByNothing, Confidence: CertaintyNone} }

// MaskedFields says which fields of a dead letter's failure are hidden because they were read from a masked header.
type MaskedFields struct {
	ErrorMessage, ErrorClass, StackTrace, ConsumerGroup bool
}

// Group reports whether the texts of error groups are masked: each is made of a class,
// a message and a stack trace of any of its messages.
func (f MaskedFields) Group() bool { return f.ErrorMessage || f.ErrorClass || f.StackTrace }

// Explanation holds the source of each field that was derived from a dead letter.
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

	Hops []Hop // every failure that the record reports, oldest first
}

// Hop is one failure of a record that failed more than once.
type Hop struct {
	Dialect   string
	Topic     string // in which it failed, possibly a dead-letter topic; "" when not known
	Partition *int32 // nil when not known
	Offset    *int64 // nil when not known
}

// Fields returns the source of every field by the field's name in the API.
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

// Of adapts a fresh explanation to the stored message. A fresh derivation uses the present rules and topics, and an
// operator may have set the origin since: where the stored origin has another source, that source is returned instead
// of the fresh one.
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

// rank returns the coarser source that a message's origin stores.
func (d DerivedFrom) rank() DerivedFrom {
	if d == ByCompanion || d == ByRecord {
		return ByHeader
	}
	return d
}

// sourceOf returns the source that a message's origin stores.
func sourceOf(c Confidence) DerivedFrom {
	if c == "" {
		return ByNothing
	}
	return DerivedFrom(c) // the values are equal
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
