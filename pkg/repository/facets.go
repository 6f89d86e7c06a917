package repository

import (
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// FacetQuery asks for the values that the matching messages have for some keys.
type FacetQuery struct {
	Filter entity.Filter
	By     []FacetKey
	Sum    string // path of the numbers that are added up; "" when no sum is requested
	Limit  int    // number of values of each facet
}

// FacetKey says which values are counted: those of a field, of a header, or at a path in the record's JSON. Exactly one
// field of the struct is set.
type FacetKey struct {
	Field  FacetField
	Header string // name of a header
	Path   string // path in the record's JSON, in the form of payload.Path.String
}

// FacetField is a field of a message that may be a FacetKey. Its name is that of the parameter of a filter.
type FacetField string

// The fields.
const (
	FacetTopic         FacetField = "topic" // the original topic
	FacetStatus        FacetField = "status"
	FacetErrorClass    FacetField = "error_class"
	FacetConsumerGroup FacetField = "consumer_group"
	FacetDialect       FacetField = "dialect"
	FacetErrorGroup    FacetField = "group_id"
	FacetRecordKey     FacetField = "key" // the key of the record, decoded if it has a schema
)

// FacetFields returns all FacetFields.
func FacetFields() []FacetField {
	return []FacetField{
		FacetTopic, FacetStatus, FacetErrorClass, FacetConsumerGroup, FacetDialect, FacetErrorGroup, FacetRecordKey,
	}
}

// String returns the text with which requests name the key.
func (k FacetKey) String() string {
	switch {
	case k.Header != "":
		return FacetHeader + k.Header
	case k.Path != "":
		return k.Path
	}
	return string(k.Field)
}

// FacetHeader is the prefix of the text of a FacetKey that names a header.
const FacetHeader = "header:"

// Facets are the values of the newest messages that match.
type Facets struct {
	Counted int64 // number of messages whose values were counted for these facets
	All     bool  // whether Counted is the number of all matching messages, so that no message was left out
	// Before is set when only messages that were created before this time were counted, because later ones were not
	// indexed yet. All and Counted are about the counted messages only.
	Before time.Time
	Sum    FacetSum
	Facets []Facet // one for each key of the query, in the order of FacetQuery.By
}

// FacetSum is the sum of the numbers that the matching messages have at one path of their payloads.
type FacetSum struct {
	Sum      string // the sum, exact and in decimal notation; "" when the query requested no sum
	Messages int64  // number of messages that have a number at the query's path
}

// Facet contains the values of one key. A message counts once for each different value that it has.
type Facet struct {
	Missing  int64 // number of messages that have no value for the key
	Distinct int64 // number of different values for the key
	// Exact reports that Distinct is not an estimate and that Values contains the most frequent values. It is false
	// when there were too many values to keep all of them in memory. The counts in Values are always exact.
	Exact  bool
	Values []FacetValue // the most frequent values for the key
}

// FacetValue is a value and the number of messages that have it.
type FacetValue struct {
	Kind     FacetKind
	Text     string // the value as text: a string without quotes, any other value as JSON
	Messages int64
	Sum      FacetSum // sum over the messages that have this value
}

// FacetKind is the kind of a value: BytesValue, or the kind of a JSON scalar.
type FacetKind string

// The kinds of values.
const (
	StringValue  FacetKind = "string"
	NumberValue  FacetKind = "number"
	BooleanValue FacetKind = "boolean"
	NullValue    FacetKind = "null"
	BytesValue   FacetKind = "bytes" // a key or header that is not UTF-8; Text contains the bytes themselves
)

// MaxFacetMessages is the maximum number of messages that PostgreSQL reads for facets.
const MaxFacetMessages = 100_000

// FacetMemory is the memory in bytes that a request for facets may need. Of server.buffer_bytes, one client may always
// use the memory of two pages of a list. FacetMemory leaves a part of this for the other requests of a page of the
// console.
const FacetMemory = 2*ListPageLimit - 4<<20
