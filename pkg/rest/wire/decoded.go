package wire

import (
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
)

// plainJSON is the format of a payload that is JSON without a schema.
const plainJSON = "json"

// decoded decodes the value and the key of a message, if they have schemas. omitted says why the answer leaves the
// value out when the value has no schema.
func decoded(m *entity.Message, v View, omitted string) (value, key entity.Decoded) {
	if !v.NoValues && (omitted == "" || omitted == NotJSON) {
		value = v.Schemas.Decode(m, entity.ValuePart, v.Limit)
	}
	if value.Format != entity.NoFormat {
		v.Schemas.Complete(m, entity.ValuePart, &value)
	}
	if key = v.Schemas.Decode(m, entity.KeyPart, v.Limit); key.Format != entity.NoFormat {
		v.Schemas.Complete(m, entity.KeyPart, &key)
	}
	return value, key
}

// maskRecord replaces the hidden values of the payload and of the key. It hides the bytes of a key with a schema in which
// something is hidden. It also removes the reasons for which a part cannot be decoded, because these reasons name paths,
// and a path may contain values.
func (c *shown) maskRecord(by Masking) {
	if !by.CoversPath(payload.Path{}) {
		return
	}
	if c.payload != nil {
		c.payload, c.masked = by.Read(c.payload, c.value.Names).Shown()
	}
	c.value.Reason, c.key.Reason = "", ""
	key := by.ReadPart(&c.Record, entity.KeyPart, c.key)
	if !key.Hides() || c.Record.Key == nil {
		return
	}
	text, names := key.Shown()
	for _, name := range names {
		c.masked = append(c.masked, "key:"+name)
	}
	c.shownKey = []byte(MaskedText)
	switch {
	case c.key.JSON != nil:
		c.key.JSON = text
	case c.key.Format == entity.NoFormat:
		c.shownKey = text
	}
}

// writeDecodedPayload writes the format of the payload, its schema, and the reason why it cannot be decoded.
func (c *shown) writeDecodedPayload(r *row) {
	format := string(c.value.Format)
	if format == "" && c.payload != nil {
		format = plainJSON
	}
	r.text("payload_format", format)
	r.schema("payload_schema", c.value)
	r.text("payload_reason", c.value.Reason)
}

// writeDecodedKey writes the key as JSON if it has a schema, and then the key's format and schema.
func (c *shown) writeDecodedKey(r *row) {
	switch r.name("key_json"); {
	case r.csv:
		r.dst = appendCell(r.dst, string(c.key.JSON))
	case c.key.JSON == nil:
		r.null()
	default:
		begin := len(r.dst)
		if r.dst = append(r.dst, c.key.JSON...); c.oneLine {
			joinLines(r.dst[begin:])
		}
	}
	r.text("key_format", string(c.key.Format))
	r.schema("key_schema", c.key)
}

// schema writes a member that describes the schema of a decoded part; null for a part without a schema.
func (r *row) schema(name string, d entity.Decoded) {
	r.name(name)
	if d.Format == entity.NoFormat {
		r.null()
		return
	}
	inner := row{dst: []byte{'{'}}
	inner.word("registry", d.Schema.Registry)
	number(&inner, "id", OrNull(d.Schema.ID))
	inner.text("guid", d.Schema.GUID)
	inner.text("subject", d.Schema.Subject)
	number(&inner, "version", OrNull(d.Schema.Version))
	number(&inner, "latest_version", OrNull(d.Schema.LatestVersion))
	if inner.dst = append(inner.dst, '}'); r.csv {
		r.dst = appendCell(r.dst, string(inner.dst))
	} else {
		r.dst = append(r.dst, inner.dst...)
	}
}

// SchemaTexts contains the schema of a message's payload or key, and the latest version of the subject to which this
// schema belongs.
type SchemaTexts struct {
	Format        entity.Format `json:"format"`
	Registry      string        `json:"registry"`
	ID            *int          `json:"id"`
	GUID          *string       `json:"guid"`
	Subject       *string       `json:"subject"`
	Version       *int          `json:"version"`
	LatestVersion *int          `json:"latest_version"`
	Writer        *string       `json:"writer"`
	Latest        *string       `json:"latest"`
	Hidden        *string       `json:"hidden"`
	Error         *string       `json:"error"`
}

// NewSchemaTexts shows a comparison of schemas.
func NewSchemaTexts(c entity.SchemaComparison) SchemaTexts {
	return SchemaTexts{
		Format: c.Format, Registry: c.Schema.Registry, ID: OrNull(c.Schema.ID), GUID: OrNull(c.Schema.GUID), Subject: OrNull(c.Schema.Subject),
		Version: OrNull(c.Schema.Version), LatestVersion: OrNull(c.Schema.LatestVersion), Writer: OrNull(c.Writer), Latest: OrNull(c.Latest),
		Hidden: OrNull(c.Hidden), Error: OrNull(c.Fault),
	}
}
