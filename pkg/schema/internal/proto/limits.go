package proto

import (
	"errors"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/dlq-manager/dlq-manager/pkg/schema/internal/codec"
)

// errData means that the data are not an encoded message. The library rejects the same data.
var errData = errors.New("not an encoded message")

// measure reads an encoded message and keeps nothing of it. Before the library decodes the message, measure returns an
// error if its JSON would certainly be larger than the limit, or if its fields would use many times the limit in
// memory.
type measure struct {
	schema *Schema
	json   int // number of further bytes of JSON that the limit allows
	// number of messages that may still be read: an empty message takes two bytes in the data, but 200 bytes in memory
	messages int
	// number of bytes that may still be read in values of type Any, which the library copies at each level of nesting
	any int
}

func newMeasure(s *Schema, limit int) *measure {
	const smallest = 8 // the shortest JSON of a message with a field: {"a":1},
	return &measure{schema: s, json: limit, messages: limit/smallest + 1000, any: 4 * limit}
}

func (c *measure) spend(n int) error {
	if c.json -= n; c.json < 0 || c.messages < 0 || c.any < 0 {
		return &codec.LimitError{Kind: codec.TooLarge}
	}
	return nil
}

const anyName = "google.protobuf.Any"

func (c *measure) message(d protoreflect.MessageDescriptor, data []byte, depth int) error {
	if depth > codec.MaxDepth {
		return &codec.LimitError{Kind: codec.TooDeep}
	}
	c.messages--
	if err := c.spend(2); err != nil {
		return err
	}
	var before protowire.Number
	var url string
	var value []byte
	for len(data) > 0 {
		number, wire, n := protowire.ConsumeTag(data)
		if n < 0 {
			return errData
		}
		size := protowire.ConsumeFieldValue(number, wire, data[n:])
		if size < 0 {
			return errData
		}
		content := data[n : n+size]
		data = data[n+size:]
		f := c.schema.field(d, number)
		if f == nil {
			continue
		}
		if number != before && !d.IsMapEntry() {
			if err := c.spend(len(f.JSONName()) + 3); err != nil {
				return err
			}
		}
		before = number
		if err := c.field(f, wire, content, depth); err != nil {
			return err
		}
		if wire == protowire.BytesType && d.FullName() == anyName {
			content, _ = protowire.ConsumeBytes(content)
			if number == 1 {
				url = string(content)
			} else {
				value = content
			}
		}
	}
	if url == "" {
		return nil
	}
	inner, err := c.schema.types.FindMessageByURL(url)
	if err != nil {
		return nil //nolint:nilerr // the library reports later that this message has no JSON form
	}
	c.any -= len(value)
	return c.message(inner.Descriptor(), value, depth+1)
}

// field returns the field or the extension of a message type that has the number; nil when there is none.
func (s *Schema) field(d protoreflect.MessageDescriptor, number protowire.Number) protoreflect.FieldDescriptor {
	if f := d.Fields().ByNumber(number); f != nil {
		return f
	}
	if x, err := s.types.FindExtensionByNumber(d.FullName(), number); err == nil {
		return x.TypeDescriptor()
	}
	return nil
}

// field counts one occurrence of a field. A packed list is one occurrence.
func (c *measure) field(f protoreflect.FieldDescriptor, wire protowire.Type, content []byte, depth int) error {
	switch wire {
	case protowire.BytesType:
		inner, _ := protowire.ConsumeBytes(content)
		switch f.Kind() {
		case protoreflect.MessageKind:
			return c.message(f.Message(), inner, depth+1)
		case protoreflect.StringKind, protoreflect.BytesKind:
			return c.spend(len(inner))
		default:
			return c.packed(f, inner)
		}
	case protowire.StartGroupType:
		if f.Kind() != protoreflect.GroupKind {
			return nil
		}
		number := f.Number()
		inner, n := protowire.ConsumeGroup(number, content)
		if n < 0 {
			return errData
		}
		return c.message(f.Message(), inner, depth+1)
	case protowire.VarintType:
		v, _ := protowire.ConsumeVarint(content)
		return c.spend(valueSize(f, v))
	default:
		return c.spend(2)
	}
}

func (c *measure) packed(f protoreflect.FieldDescriptor, data []byte) error {
	switch f.Kind() {
	case protoreflect.DoubleKind, protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind:
		return c.spend(len(data) / 4)
	case protoreflect.FloatKind, protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind:
		return c.spend(len(data) / 2)
	default:
	}
	for len(data) > 0 {
		v, n := protowire.ConsumeVarint(data)
		if n < 0 {
			return errData
		}
		data = data[n:]
		if err := c.spend(valueSize(f, v)); err != nil {
			return err
		}
	}
	return nil
}

// valueSize returns the minimum number of bytes that a number has in JSON, with a comma.
func valueSize(f protoreflect.FieldDescriptor, v uint64) int {
	if f.Kind() == protoreflect.EnumKind {
		if value := f.Enum().Values().ByNumber(protoreflect.EnumNumber(int32(v))); value != nil { //nolint:gosec // as the library reads it
			return len(value.Name()) + 3
		}
	}
	return 2
}
