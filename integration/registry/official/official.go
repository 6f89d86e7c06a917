// Package official runs the official encoders and decoders of the schema registry's clients for Python and Node as
// child processes. The functions Python and Node install the clients, in pinned versions, into a cache when the cache
// does not contain them.
package official

import (
	"encoding/json"
)

// Parts of a record.
const (
	Key   = "key"
	Value = "value"
)

// Formats of a value.
const (
	Avro     = "avro"
	Protobuf = "protobuf"
	JSON     = "json"
)

// The framings: the places where a record names the schema of its key or value.
const (
	Prefix = "prefix" // before the key or value: magic byte 0 and the schema's id
	Header = "header" // in a header of the record: magic byte 1 and the schema's GUID
)

// Reference is a schema that another schema uses. Encode registers it in the subject that its field Subject names. It
// registers references in their order, so each reference may use those before it.
type Reference struct {
	Name    string `json:"name"` // name that the using schema has for it: an Avro type, an imported file or a URI
	Subject string `json:"subject"`
	Schema  string `json:"schema"`
}

// Connection is the address of the registry, and the user and password to sign in with.
type Connection struct {
	RegistryURL string `json:"registry_url"`
	User        string `json:"user,omitempty"`
	Password    string `json:"password,omitempty"`
}

// EncodeRequest asks to register a schema and to encode a value with it.
//
// The value is a description in JSON. For Avro, and for the client in Node, these objects represent values that JSON
// lacks: {"$bytes": base64}, {"$decimal": "1.20"}, {"$datetime": RFC 3339}, {"$date": "2026-11-23"}, {"$time":
// "10:00:00.123"}, {"$float": "NaN"}, and {"$tuple": [branch, value]} for a branch of a union. A $datetime without a
// zone is a local time. The client in Node supports only $bytes, $float and $tuple, and $tuple only if a union has
// several records or several numbers. For Protobuf in Python the value is the canonical JSON form of the message, or
// {"$raw": base64} for the bytes of a message with unknown fields.
type EncodeRequest struct {
	Connection
	Topic      string          `json:"topic"`
	Part       string          `json:"part"`
	Format     string          `json:"format"`
	Framing    string          `json:"framing,omitempty"` // Prefix if empty
	Schema     string          `json:"schema"`
	References []Reference     `json:"references,omitempty"`
	Message    string          `json:"message,omitempty"` // full name of the value's Protobuf message
	Value      json.RawMessage `json:"value"`
}

// RecordHeader is a header of a record. In JSON it is an array of the name and the value.
type RecordHeader struct {
	Name  string
	Value []byte
}

// MarshalJSON writes the name and the value in base64.
func (h RecordHeader) MarshalJSON() ([]byte, error) { return json.Marshal([]any{h.Name, h.Value}) }

// UnmarshalJSON reads the JSON that MarshalJSON writes.
func (h *RecordHeader) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{&h.Name, &h.Value})
}

// Encoded is the answer to an EncodeRequest. Value is nil if the client returned no bytes for the value.
type Encoded struct {
	Value   []byte         `json:"value_base64"`
	Headers []RecordHeader `json:"headers"`
	Error   string         `json:"error"` // why the client refused the request
}

// DecodeRequest asks to decode a key or a value. Schema, References and Message are for Protobuf only: the decoder in
// Python needs them to generate the class of the message.
type DecodeRequest struct {
	Connection
	Topic      string         `json:"topic"`
	Part       string         `json:"part"`
	Format     string         `json:"format"`
	Value      []byte         `json:"value_base64"`
	Headers    []RecordHeader `json:"headers,omitempty"`
	Schema     string         `json:"schema,omitempty"`
	References []Reference    `json:"references,omitempty"`
	Message    string         `json:"message,omitempty"`
}

// Decoded is the answer to a DecodeRequest.
//
// Avro has this form: bytes and fixed are strings with one character per byte; decimals are strings
// with all digits; a timestamp is in RFC 3339 with Z and as many digits of a second as its type
// has, a local timestamp the same without Z; dates are YYYY-MM-DD and times HH:MM:SS.fff(fff); NaN
// and infinities are strings; a float has as few digits as its 32 bits need; a union is the value of
// its branch. Protobuf is in its canonical JSON form. JSON is the value itself.
type Decoded struct {
	Value json.RawMessage `json:"value"`
	Error string          `json:"error"` // why the client refused the request
}
