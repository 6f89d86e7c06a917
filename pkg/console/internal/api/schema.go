package api

import (
	"cmp"
	"fmt"
)

// SchemaReference names the schema of a payload or a key. Fields for which the registry gave no answer are empty or 0.
type SchemaReference struct {
	Registry string `json:"registry"`
	ID       int64  `json:"id"`
	GUID     string `json:"guid"`
	Subject  string `json:"subject"`
	Version  int    `json:"version"`
	Latest   int    `json:"latest_version"`
}

// Name returns the name of the schema, such as "orders-value version 3", or, if the subject or the version is not
// known, its id, else its GUID or subject.
func (s SchemaReference) Name() string {
	switch {
	case s.Subject != "" && s.Version > 0:
		return fmt.Sprintf("%s version %d", s.Subject, s.Version)
	case s.ID > 0:
		return fmt.Sprintf("schema %d", s.ID)
	default:
		return "schema " + cmp.Or(s.GUID, s.Subject)
	}
}

// Behind reports whether the subject has a later version.
func (s SchemaReference) Behind() bool { return s.Version > 0 && s.Latest > s.Version }

// SchemaComparison contains a schema and the latest version of its subject, as the registry returned them.
type SchemaComparison struct {
	SchemaReference
	Format string `json:"format"`
	Writer string `json:"writer"`
	Newest string `json:"latest"` // text of the subject's latest version of the schema; empty: not known
	Hidden string `json:"hidden"` // the reason why the viewer may not see the texts
	Fault  string `json:"error"`  // the reason why the schema cannot be used
}

// Encoding returns the name of the schema's format.
func (s SchemaComparison) Encoding() string { return encoding(s.Format) }

// PayloadEncoding returns the name of the format of a payload with a schema, "" for other payloads.
func (m *Message) PayloadEncoding() string {
	if m.PayloadFormat == "json" {
		return ""
	}
	return encoding(m.PayloadFormat)
}

// KeyEncoding returns the name of the format of a key with a schema, "" for other keys.
func (m *Message) KeyEncoding() string { return encoding(m.KeyFormat) }

// DecodedKey returns a key with a schema as JSON; nil for a key without a schema, and for a key that cannot be decoded.
func (m Message) DecodedKey() []byte {
	if m.KeyFormat == "" || string(m.KeyJSON) == "null" {
		return nil
	}
	return m.KeyJSON
}

// KeyWords returns the key as one text; "" for none.
func (m Message) KeyWords() string {
	if decoded := m.DecodedKey(); decoded != nil {
		return string(decoded)
	}
	if m.Key == nil {
		return ""
	}
	return m.Key.Words()
}

func encoding(format string) string {
	switch format {
	case "avro":
		return "Avro"
	case "protobuf":
		return "Protobuf"
	case "json_schema":
		return "JSON Schema"
	case "":
		return ""
	default:
		return "unknown format"
	}
}
