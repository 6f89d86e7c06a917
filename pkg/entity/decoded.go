package entity

// Decoded is the key or the value of a record as JSON, read with the schema that it was written with.
type Decoded struct {
	Format Format // NoFormat: the bytes have no schema; the other fields are zero then
	JSON   []byte // nil when Omitted is not empty
	// Omitted is why there is no JSON: SchemaUnavailable, SchemaError, or a limit of payloads.
	Omitted string
	// Reason says more about Omitted. It contains nothing of the bytes.
	Reason string
	// Temporary: the schema could not be read now, but the registry did not say that it has none.
	Temporary bool
	Schema    SchemaRef
}

// Format is the format of an encoded key or value.
type Format string

// The formats of a schema registry.
const (
	NoFormat   Format = ""
	Avro       Format = "avro"
	Protobuf   Format = "protobuf"
	JSONSchema Format = "json_schema"
	// UnknownFormat: the schema cannot be read, so the format is not known.
	UnknownFormat Format = "unknown"
)

// Reasons why an encoded key or value has no JSON.
const (
	// SchemaUnavailable: the schema cannot be read now, or the registry does not have it. It is tried again later.
	SchemaUnavailable = "schema_unavailable"
	// SchemaError: the schema is not valid, or the bytes do not fit it.
	SchemaError = "schema_error"
)

// SchemaRef names a schema in a registry. Fields that are not known are zero.
type SchemaRef struct {
	Registry      string // name in the configuration
	ID            int
	GUID          string
	Subject       string
	Version       int
	LatestVersion int // of the subject
}

// SchemaChoice says with which schema an edited payload or key is encoded.
type SchemaChoice string

const (
	// SameSchema is the schema that the record was written with.
	SameSchema SchemaChoice = "same"
	// LatestSchema is the latest version of the subject of the target topic.
	LatestSchema SchemaChoice = "latest"
)

// RecordPart is the key or the value of a record.
type RecordPart string

// The parts of a record that have a schema.
const (
	KeyPart   RecordPart = "key"
	ValuePart RecordPart = "value"
)

// PartReader decodes keys and values for one answer or one batch. It bounds the time of all its look-ups together, and
// must not be used concurrently.
type PartReader interface {
	// Decode returns a part of a message as JSON of at most limit bytes. A part that the message does not carry, and one
	// without a schema, is NoFormat.
	Decode(m *Message, part RecordPart, limit int) Decoded
	// Complete adds the subject and the versions of a decoded part's schema, as far as the registry knows them and
	// answers in time.
	Complete(m *Message, part RecordPart, d *Decoded)
}

// EncodedPart is an edited key or value, encoded for sending.
type EncodedPart struct {
	Data   []byte
	Header *Header // replaces the header of that name, which names the schema; nil: the headers stay as they are
}

// EncodeTarget says where an edited part goes, and with which schema.
type EncodeTarget struct {
	Topic  string // "" for the original topic
	Schema SchemaChoice
}

// SchemaComparison is the schema of a record's part beside the latest version of its subject, as their registry has
// them.
type SchemaComparison struct {
	Format Format
	Schema SchemaRef
	Writer string // text of the schema that the part was written with
	Fault  string // why that schema cannot be used; "" when it can
	Latest string // text of the latest version; "" when it is not known
}
