package schema

import (
	"errors"
	"fmt"
	"sync"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
	"github.com/dlq-manager/dlq-manager/pkg/schema/internal/avro"
	"github.com/dlq-manager/dlq-manager/pkg/schema/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/schema/internal/jsonschema"
	"github.com/dlq-manager/dlq-manager/pkg/schema/internal/proto"
)

// source is a schema in the form in which the registry returned it.
type source struct {
	format entity.Format
	text   string
	refs   []reference // the schemas to which this schema refers; each comes after the schemas to which it refers
}

type reference struct{ name, text string }

func (s source) size() int {
	size := len(s.text)
	for _, r := range s.refs {
		size += len(r.text) + len(r.name)
	}
	return size
}

func (s source) byName() map[string]string {
	all := map[string]string{}
	for _, r := range s.refs {
		all[r.name] = r.text
	}
	return all
}

// compiled is the result of compiling a schema: the compiled schema, or the fault for which it cannot be used. It is
// immutable and safe for concurrent use.
type compiled struct {
	source
	id    int
	guid  string
	fault error // why the schema cannot be used; nil when it can be used

	avro  *avro.Schema
	proto *proto.Schema
	json  *jsonschema.Schema
}

// maxSchema is the maximum size in bytes of a schema together with its references; a larger schema cannot be used.
const maxSchema = 4 << 20

var errSchemaSize = fmt.Errorf("the schema and its references are larger than %d bytes", maxSchema)

// compile compiles a schema. It returns no error: if the schema cannot be used, the result contains the fault. So the
// result can be cached, and the schema is not compiled again for every message.
func compile(id int, guid string, s source) *compiled {
	c := &compiled{source: s, id: id, guid: guid}
	compiling.Lock()
	defer compiling.Unlock()
	if err := c.build(); err != nil {
		c.fault = errors.New(clip(err.Error())) // shortened, because the error may contain the whole schema
	}
	return c
}

// compiling allows only one compilation at a time, because a compilation may briefly use 300 times the schema's size in
// memory.
var compiling sync.Mutex

// weight returns the approximate number of bytes that a compiled schema uses in memory.
func (c *compiled) weight() int {
	factors := map[entity.Format]int{entity.Avro: 30, entity.Protobuf: 100, entity.JSONSchema: 100}
	return (1 + factors[c.format]) * c.size()
}

func (c *compiled) build() (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = errors.New("the schema cannot be read: its parser failed")
		}
	}()
	if c.size() > maxSchema {
		return errSchemaSize
	}
	switch c.format {
	case entity.Avro:
		texts := make([]string, len(c.refs))
		for i, r := range c.refs {
			texts[i] = r.text
		}
		c.avro, err = avro.Parse(c.text, texts)
	case entity.Protobuf:
		c.proto, err = proto.Parse(c.text, c.byName())
	case entity.JSONSchema:
		c.json, err = jsonschema.Parse(c.text, c.byName())
	default:
		return errors.New("the schema has a format that is not Avro, Protobuf or JSON Schema")
	}
	return err
}

var errNotJSON = &codec.Error{Path: "$", Reason: "is not JSON"}

// decode returns the JSON of an encoded part, of at most limit bytes.
func (c *compiled) decode(f frame, limit int) (text []byte, err error) {
	defer recoverError(&err)
	switch c.format {
	case entity.Avro:
		return c.avro.Decode(f.data, limit)
	case entity.Protobuf:
		indexes, data, err := f.indexes()
		if err != nil {
			return nil, err
		}
		return c.proto.Decode(indexes, data, limit)
	default:
		return decodeJSON(f.data, limit)
	}
}

// decodeJSON returns a value that has a JSON Schema unchanged, because it is JSON already. It returns an error if the
// value is not valid JSON or exceeds the limits.
func decodeJSON(data []byte, limit int) ([]byte, error) {
	switch form := payload.Scan(data); {
	case form.Depth > codec.MaxDepth:
		return nil, &codec.LimitError{Kind: codec.TooDeep}
	case !form.Valid:
		return nil, errNotJSON
	case len(data) > limit:
		return nil, &codec.LimitError{Kind: codec.TooLarge}
	}
	return data, nil
}

// encode returns the encoding of the JSON in text, without a frame. For Protobuf it keeps the fields of original that
// the schema does not know.
func (c *compiled) encode(indexes []int, text []byte, original *proto.Original, limit int) (data []byte, err error) {
	defer recoverError(&err)
	switch c.format {
	case entity.Avro:
		return c.avro.Encode(text, limit)
	case entity.Protobuf:
		return c.proto.Encode(indexes, text, original, limit)
	default:
		return text, c.json.Check(text)
	}
}

func recoverError(err *error) {
	if fault := recover(); fault != nil {
		*err = &codec.Error{Path: "$", Reason: "cannot be read with its schema"}
	}
}

// name returns the full name of the record type or message type. Some producers use this name in the names of subjects.
func (c *compiled) name(indexes []int) string {
	switch {
	case c.avro != nil:
		return c.avro.Name()
	case c.proto != nil:
		return c.proto.Name(indexes)
	}
	return ""
}
