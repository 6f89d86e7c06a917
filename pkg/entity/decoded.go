package entity

// Decoded is the key or the value of a record as JSON. The bytes were decoded with the schema with which the producer
// had written them.
type Decoded struct {
	Format Format // NoFormat when the bytes were not written with a schema; then the other fields are zero
	JSON   []byte // nil when Omitted is not empty
	Names  Names  // the schema's names of the members of JSON; nil when only those in JSON are known
	// Omitted is SchemaUnavailable, SchemaError, or one of the reasons for which payloads are omitted, when there is no
	// JSON.
	Omitted string
	// Reason describes Omitted in more detail. Reason contains no part of the key or value.
	Reason string
	// Temporary says that the schema could not be read now, but perhaps can be read later, because the registry did not
	// answer that the schema does not exist.
	Temporary bool
	Schema    SchemaRef
}

// Format is the format in which a key or value is encoded.
type Format string

// The formats for which a schema registry has schemas.
const (
	NoFormat   Format = ""
	Avro       Format = "avro"
	Protobuf   Format = "protobuf"
	JSONSchema Format = "json_schema"
	// UnknownFormat: the schema could not be read, and only the schema says which format it is.
	UnknownFormat Format = "unknown"
)

// Reasons why an encoded key or value has no JSON.
const (
	// SchemaUnavailable: the schema could not be read now, or the registry does not have it. The key or value is decoded
	// again later.
	SchemaUnavailable = "schema_unavailable"
	// SchemaError: the schema is not valid, or the bytes cannot be decoded with it.
	SchemaError = "schema_error"
)

// SchemaRef names a schema in a registry. A field is zero when it is not known.
type SchemaRef struct {
	Registry      string // name of the registry in the configuration
	ID            int
	GUID          string
	Subject       string
	Version       int
	LatestVersion int // the latest version of the schema's subject
}

// SchemaChoice says with which schema an edited payload or key is encoded.
type SchemaChoice string

const (
	// SameSchema is the schema with which the record was written.
	SameSchema SchemaChoice = "same"
	// LatestSchema is the latest version of the subject that belongs to the target topic.
	LatestSchema SchemaChoice = "latest"
)

// RecordPart is the key or the value of a record.
type RecordPart string

// The parts of a record that may have a schema.
const (
	KeyPart   RecordPart = "key"
	ValuePart RecordPart = "value"
)

// PartReader decodes keys and values for one answer or one batch. One time limit applies to all its look-ups together.
// It must not be used concurrently.
type PartReader interface {
	// Decode returns a part of a message as JSON of at most limit bytes. When the message has no key or value, or it was
	// written without a schema, the result has the format NoFormat.
	Decode(m *Message, part RecordPart, limit int) Decoded
	// Complete adds to d the subject and the versions of the schema, if the registry knows them and answers in time.
	Complete(m *Message, part RecordPart, d *Decoded)
}

// DecodePart is Decode of a reader that may be nil. A nil reader decodes nothing.
func DecodePart(r PartReader, m *Message, part RecordPart, limit int) Decoded {
	if r == nil {
		return Decoded{}
	}
	return r.Decode(m, part, limit)
}

// EncodedPart is an edited key or value after it was encoded for sending.
type EncodedPart struct {
	Data   []byte
	Header *Header // names the schema, and replaces the record's header of the same name; nil when no header changes
}

// EncodeTarget says to which topic an edited part is sent, and with which schema it is encoded.
type EncodeTarget struct {
	Topic  string // "" for the original topic
	Schema SchemaChoice
}

// SchemaComparison compares the schema of a record's part with the latest version of its subject, both as the registry
// has them.
type SchemaComparison struct {
	Format Format
	Schema SchemaRef
	Writer string // text of the schema with which the key or the value was written; "" if Hidden
	Hidden string // why the caller may not see the texts; "" when the caller may
	Fault  string // why the schema in Writer cannot be used; "" when it can
	Latest string // text of the latest version of the schema's subject; "" when this version is not known
}
