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
	MessageIDs    []uuid.UUID   // only these messages; empty: any
	Topic         string        // original or dead-letter topic, by its exact name
	Topics        TopicPatterns // patterns for the original or dead-letter topic; the zero value: any
	Statuses      []Status      // empty: any; for a redrive: the statuses that its action applies to
	ErrorClass    string        // of the consumer's failure
	ConsumerGroup string
	Dialect       string
	Group         uuid.UUID // error group
	UnknownOrigin bool      // only messages whose original topic is not known

	CreatedAfter  time.Time // inclusive
	CreatedBefore time.Time // exclusive; for a redrive zero means its creation time, so later arrivals are never in it
	RetriedAfter  time.Time // inclusive; of the last attempt's start
	RetriedBefore time.Time // exclusive

	// The conditions below use the search index, which is updated shortly after the messages: see repository.SearchIndex.
	Key     []byte        // record key; nil: any
	Headers []HeaderMatch // each must be among the record's headers
	Fields  []FieldMatch  // each must occur in the record's JSON
	Words   []string      // each is part of the error message or of the record's text, in upper or lower case

	// Visible restricts the filter to the topics that the caller may see, by TopicPatterns.Sees; nil: all.
	Visible *TopicPatterns
}

// HeaderMatch is a header that a record must have.
type HeaderMatch struct {
	Name  string
	Value []byte // nil: any
}

// FieldMatch is a path in a record's JSON and the values that it may have.
type FieldMatch struct {
	Path string // in the form of payload.Path.String
	// Values are scalars in their canonical form (see FieldTerm), of which one must match; empty: any value matches.
	Values []string
}

// Narrow reports whether the filter has a condition other than times and statuses. Without one it could select every
// message.
func (f Filter) Narrow() bool {
	return len(f.MessageIDs) > 0 || f.Topic != "" || len(f.Topics.list) > 0 || f.ErrorClass != "" || f.ConsumerGroup != "" || f.Dialect != "" ||
		f.Group != uuid.Nil || f.UnknownOrigin || f.NeedsSearchIndex()
}

// NeedsSearchIndex reports whether the filter has a condition on keys, headers, fields or words.
func (f Filter) NeedsSearchIndex() bool {
	return f.Key != nil || len(f.Headers) > 0 || len(f.Fields) > 0 || len(f.Words) > 0
}

// Terms returns the terms that a message's indexed document must contain: at least one of each list.
func (f Filter) Terms() [][]int64 {
	var all [][]int64
	if f.Key != nil {
		all = append(all, []int64{KeyTerm(f.Key)})
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

// Document is the indexed document of a message in the search index.
type Document struct {
	MessageID uuid.UUID
	CreatedAt time.Time // of the message; documents are partitioned by it
	Text      string    // lower case: error message and the record's text, without masked values
	Terms     []int64   // of the key, and of each header and field: one without and one with its value
	// Fingerprint is set for messages that were stored without an error group; nil for others.
	Fingerprint *Fingerprint
}

// KeyTerm returns the term of a record's key.
func KeyTerm(key []byte) int64 { return term("key", "", key) }

// HeaderTerm returns the term of a header with that value, or with any value when value is nil. Null and empty values
// have the same term.
func HeaderTerm(name string, value []byte) int64 {
	if value == nil {
		return term("header", name, nil)
	}
	return term("header=", name, value)
}

// FieldTerm returns the term of a scalar at a path of a record's JSON, in the canonical form of payload.Scalar, or of
// the path alone when scalar is "".
func FieldTerm(path, scalar string) int64 {
	if scalar == "" {
		return term("field", path, nil)
	}
	return term("field=", path, []byte(scalar))
}

// term returns a hash of 64 bits: a collision of two inputs is less likely than a hardware fault.
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
