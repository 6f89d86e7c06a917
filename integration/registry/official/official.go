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

// Framings: where a record has the identity of its schema.
const (
	Prefix = "prefix" // magic byte 0 and the id, before the value
	Header = "header" // magic byte 1 and the GUID, in a header of the record
)

// Reference is a schema that another schema uses. It is registered in the subject that its field Subject names.
// References are registered in their order, so each reference may use the references before it.
type Reference struct {
	Name    string `json:"name"` // name in the schema: an Avro type, an imported file or a URI
	Subject string `json:"subject"`
	Schema  string `json:"schema"`
}

// Connection is the address of the registry and the credentials for it.
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
	Message    string          `json:"message,omitempty"` // full name of a Protobuf message
	Value      json.RawMessage `json:"value"`
}

// RecordHeader is a header of a record. It is a pair in JSON.
type RecordHeader struct {
	Name  string
	Value []byte
}

// MarshalJSON writes the name and the value in base64.
func (h RecordHeader) MarshalJSON() ([]byte, error) { return json.Marshal([]any{h.Name, h.Value}) }

// UnmarshalJSON reads what MarshalJSON writes.
func (h *RecordHeader) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{&h.Name, &h.Value})
}

// Encoded is the answer to an EncodeRequest. Value is nil for a value that the client does not
// encode.
type Encoded struct {
	Value   []byte         `json:"value_base64"`
	Headers []RecordHeader `json:"headers"`
	Error   string         `json:"error"` // why the client refused the request
}

// DecodeRequest asks to decode a value. Schema, References and Message are for Protobuf: the
// decoder in Python needs the class of the message.
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
