package entity

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/google/uuid"
)

// Filter selects the messages that meet all conditions that are set. Searches, exports, the archive and redrives
// interpret it in the same way.
type Filter struct {
	MessageIDs    []uuid.UUID   // only messages with these ids; empty for any
	Topic         string        // original or dead-letter topic, by its exact name
	Topics        TopicPatterns // patterns for the original or dead-letter topic; the zero value matches any
	Statuses      []Status      // empty for any; for a redrive, empty means the statuses to which its action applies
	ErrorClass    string        // error class of the consumer's failure
	ConsumerGroup string
	Dialect       string
	Group         uuid.UUID // only messages of the error group with this id; uuid.Nil for any
	UnknownOrigin bool      // only messages whose original topic is not known

	CreatedAfter  time.Time // only messages that were created at this time or later; zero for no limit
	CreatedBefore time.Time // only messages that were created before this time; for a redrive, zero means the time of the redrive's creation, so that the redrive never includes later arrivals
	RetriedAfter  time.Time // only messages whose last attempt began at this time or later; zero for no limit
	RetriedBefore time.Time // only messages whose last attempt began before this time; zero for no limit

	// The conditions below use the search index, which is updated shortly after the messages: see repository.SearchIndex.
	Key     []byte        // key of the record; nil for any
	Headers []HeaderMatch // the record must have each of these headers
	Fields  []FieldMatch  // each of these must occur in the record's JSON
	Words   []string      // each must be a part of the error message or of the record's text; upper and lower case do not matter

	// HiddenKeys also compares Key with keys in which masks hide something. It is set only for those who may see them.
	HiddenKeys bool

	// Visible limits the filter to messages of topics that the caller may see (see TopicPatterns.Sees); nil for all.
	Visible *TopicPatterns
}

// HeaderMatch is a header that a record must have.
type HeaderMatch struct {
	Name  string
	Value []byte // nil for any value
}

// FieldMatch is a path in a record's JSON, with the values that the record may have there.
type FieldMatch struct {
	Path string // the path in the form of payload.Path.String
	// Values are scalars in their canonical form (see FieldTerm). The record must contain one of the Values at the path;
	// with an empty list, any value.
	Values []string
}

// Narrow reports whether the filter has a condition other than on times and statuses. A filter with conditions on times
// and statuses only could match all messages.
func (f Filter) Narrow() bool {
	return len(f.MessageIDs) > 0 || f.Topic != "" || len(f.Topics.list) > 0 || f.ErrorClass != "" || f.ConsumerGroup != "" || f.Dialect != "" ||
		f.Group != uuid.Nil || f.UnknownOrigin || f.NeedsSearchIndex()
}

// NeedsSearchIndex reports whether the filter has a condition on keys, headers, fields or words.
func (f Filter) NeedsSearchIndex() bool {
	return f.Key != nil || len(f.Headers) > 0 || len(f.Fields) > 0 || len(f.Words) > 0
}

// Terms returns lists of terms of the search index. The document of a matching message has at least one term of each
// list.
func (f Filter) Terms() [][]int64 {
	var all [][]int64
	if f.Key != nil {
		any := []int64{KeyTerm(f.Key)}
		if f.HiddenKeys {
			any = append(any, HiddenKeyTerm(f.Key))
		}
		all = append(all, any)
	}
	for _, h := range f.Headers {
		all = append(all, []int64{HeaderTerm(h.Name, h.Value)})
	}
	for _, m := range f.Fields {
		any := []int64{FieldTerm(m.Path, "")}
		if len(m.Values) > 0 {
			any = any[:0]
		}
		for _, v := range m.Values {
			any = append(any, FieldTerm(m.Path, v))
		}
		all = append(all, any)
	}
	return all
}

// Document is what the search index stores for a message.
type Document struct {
	MessageID uuid.UUID
	CreatedAt time.Time // created_at of the message; documents are partitioned by this time
	Text      string    // the error message and the record's text, in lower case and without masked values
	Terms     []int64   // one term for the key, and two for each header and field: one for its name alone, one for its name and value
	// Fingerprint is set only for messages that were stored without an error group.
	Fingerprint *Fingerprint
	// Incomplete means that the message is a pointer whose record was not stored yet when the document was made.
	Incomplete bool
	// Fields are set only for the search engine, which counts facets from them; PostgreSQL does not need them.
	Fields *DocumentFields
}

// DocumentFields are the fields and values of a message from which the search engine counts facets. DocumentFields
// contain no masked values.
type DocumentFields struct {
	ErrorClass    string
	ConsumerGroup string
	Dialect       string
	Values        []DocumentValue
}

// DocumentValue is one value of a message in the facet that Key names; a message may have several values there. Equal
// values of one kind have the same text in Value.
type DocumentValue struct {
	Key   string // text of the facet's key
	Kind  string // FacetKind of the value, as text
	Value string
}

// KeyTerm returns the term for a record's key.
func KeyTerm(key []byte) int64 { return term("key", "", key) }

// HiddenKeyTerm returns the term for a record's key in which masks hide something.
func HiddenKeyTerm(key []byte) int64 { return term("hidden key", "", key) }

// HeaderTerm returns the term by which the search index finds a header with that value, or with any value when the
// parameter value is nil. A header whose value is null has the same term as a header whose value is empty.
func HeaderTerm(name string, value []byte) int64 {
	if value == nil {
		return term("header", name, nil)
	}
	return term("header=", name, value)
}

// FieldTerm returns the term for a path of a record's JSON with that scalar, which has the canonical form of
// payload.Scalar. When scalar is "", it returns the term for the path with any value.
func FieldTerm(path, scalar string) int64 {
	if scalar == "" {
		return term("field", path, nil)
	}
	return term("field=", path, []byte(scalar))
}

// term returns a hash of 64 bits. That two different inputs have the same hash is less likely than a hardware fault.
func term(kind, name string, value []byte) int64 {
	var text bytes.Buffer
	text.WriteString(kind)
	text.WriteByte(0)
	text.Write(binary.AppendUvarint(nil, uint64(len(name))))
	text.WriteString(name)
	text.Write(value)
	sum := sha256.Sum256(text.Bytes())
	return int64(binary.BigEndian.Uint64(sum[:])) //nolint:gosec // all 64-bit values are valid
}
