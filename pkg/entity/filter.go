package entity

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/google/uuid"
)

// Filter says which messages are meant: those for which everything holds that is
// set. Searches, exports, the archive and redrives read it alike.
type Filter struct {
	Topic         string        // original or dead-letter topic, by its exact name
	Topics        TopicPatterns // original or dead-letter topic matches; the zero value: any
	Statuses      []Status      // empty: any; for a redrive: those that its action can act upon
	ErrorClass    string        // of the consumer's failure
	ConsumerGroup string
	Dialect       string
	Group         uuid.UUID // error group
	UnknownOrigin bool      // only messages of which nobody knows the original topic

	CreatedAfter  time.Time // inclusive
	CreatedBefore time.Time // exclusive; a redrive takes the moment of its creation for zero, so what arrives later is never in it
	RetriedAfter  time.Time // inclusive; of the last attempt's start
	RetriedBefore time.Time // exclusive

	// What follows is answered from the search catalogue, which follows the messages
	// by a moment: see repository.SearchIndex.
	Key     []byte        // record key; nil: any
	Headers []HeaderMatch // each must be among the record's headers
	Fields  []FieldMatch  // each must be in the record's JSON
	Words   []string      // lower case; each is part of the error message or of the record's text

	// Visible are the topics that whoever asks may see, as TopicPatterns.Sees has
	// it; nil: all.
	Visible *TopicPatterns
}

// HeaderMatch is a header that a record must have.
type HeaderMatch struct {
	Name  string
	Value []byte // nil: any
}

// FieldMatch is a place in a record's JSON and what must stand there.
type FieldMatch struct {
	Path string // in the form of payload.Path.String
	// Values are scalars in their canonical form (see FieldTerm), of which one must
	// stand there; empty: anything may.
	Values []string
}

// Narrow reports whether anything narrows the filter but times and states, which
// may be any: else everything there is would be meant.
func (f Filter) Narrow() bool {
	return f.Topic != "" || len(f.Topics.list) > 0 || f.ErrorClass != "" || f.ConsumerGroup != "" || f.Dialect != "" ||
		f.Group != uuid.Nil || f.UnknownOrigin || f.Catalogued()
}

// Catalogued reports whether the filter needs the search catalogue.
func (f Filter) Catalogued() bool {
	return f.Key != nil || len(f.Headers) > 0 || len(f.Fields) > 0 || len(f.Words) > 0
}

// Terms are numbers that a message's document must have: of each list any one.
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

// Document is what the search catalogue keeps of a message.
type Document struct {
	MessageID uuid.UUID
	CreatedAt time.Time // of the message: those of one time are kept together
	Text      string    // lower case: error message, and the record's text without what is masked
	Terms     []int64   // of the key, of each header by name and with its value, of each field likewise
	// Fingerprint is for messages that came in without a group; nil for others.
	Fingerprint *Fingerprint
}

// KeyTerm stands for a record's key.
func KeyTerm(key []byte) int64 { return term("key", "", key) }

// HeaderTerm stands for a header with that value, or for one with any value when
// value is nil; null values are as empty ones.
func HeaderTerm(name string, value []byte) int64 {
	if value == nil {
		return term("header", name, nil)
	}
	return term("header=", name, value)
}

// FieldTerm stands for a scalar at a path of a record's JSON, in the canonical
// form that payload.Scalar gives, or for the path alone when scalar is "".
func FieldTerm(path, scalar string) int64 {
	if scalar == "" {
		return term("field", path, nil)
	}
	return term("field=", path, []byte(scalar))
}

// term is a number of 64 bits: that two different things have the same is less
// likely than a fault of the machine.
func term(kind, name string, value []byte) int64 {
	var text bytes.Buffer
	text.WriteString(kind)
	text.WriteByte(0)
	text.Write(binary.AppendUvarint(nil, uint64(len(name))))
	text.WriteString(name)
	text.Write(value)
	sum := sha256.Sum256(text.Bytes())
	return int64(binary.BigEndian.Uint64(sum[:])) //nolint:gosec // any 64 bits will do
}
