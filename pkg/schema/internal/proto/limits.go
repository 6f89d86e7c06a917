package proto

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/dlq-manager/dlq-manager/pkg/schema/internal/codec"
)

// Limits for schemas that are compiled. The compiler is recursive, so nesting is limited. It stores the full name of
// each element, which begins with the package's name: a long package name can make these names many thousand times as
// long as their file.
const (
	maxNesting = 100
	maxImports = 1000
	maxNames   = 32 << 20
)

var (
	errNesting = fmt.Errorf("the Protobuf schema nests deeper than %d levels", maxNesting)
	errImports = fmt.Errorf("the Protobuf schema has more than %d imports", maxImports)
	errNames   = fmt.Errorf("the full names of the Protobuf schema have more than %d bytes", maxNames)
)

// lex checks the nesting and the names of a file before the file is parsed. It skips the texts and comments in the
// file.
func lex(text string) error {
	depth, words, word, longest := 0, 0, 0, 0
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '_' || c == '.' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' {
			word++
			longest = max(longest, word)
			continue
		}
		if word > 0 {
			words, word = words+1, 0
		}
		switch c {
		case '{', '[', '(', '<':
			if depth++; depth > maxNesting {
				return errNesting
			}
		case '}', ']', ')', '>':
			depth = max(0, depth-1)
		case '"', '\'':
			for i++; i < len(text) && text[i] != c && text[i] != '\n'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case '/':
			i = afterComment(text, i)
		}
	}
	if longest*words > 4*maxNames {
		return errNames
	}
	return nil
}

// afterComment returns the index of the last byte of the comment that begins at i; i when no comment begins there.
func afterComment(text string, i int) int {
	for begin, end := range map[string]string{"//": "\n", "/*": "*/"} {
		if !strings.HasPrefix(text[i:], begin) {
			continue
		}
		size := strings.Index(text[i+2:], end)
		if size < 0 {
			return len(text)
		}
		return i + 1 + size + len(end)
	}
	return i
}

// census adds up the lengths of the full names in a file.
type census struct {
	longest, sum int
	typed        int // number of fields for which the compiler stores the full name of their type
}

func (c *census) file(f *descriptorpb.FileDescriptorProto) error {
	if len(f.GetDependency()) > maxImports {
		return errImports
	}
	prefix := len(f.GetPackage())
	if err := c.messages(f.GetMessageType(), prefix, 0); err != nil {
		return err
	}
	c.enums(f.GetEnumType(), prefix)
	c.fields(f.GetExtension(), prefix)
	for _, s := range f.GetService() {
		at := c.name(prefix, s.GetName())
		for _, m := range s.GetMethod() {
			c.name(at, m.GetName())
		}
	}
	if c.sum+c.typed*c.longest > maxNames {
		return errNames
	}
	return nil
}

func (c *census) name(prefix int, name string) int {
	size := prefix + 1 + len(name)
	c.longest, c.sum = max(c.longest, size), c.sum+size
	return size
}

func (c *census) messages(list []*descriptorpb.DescriptorProto, prefix, depth int) error {
	if depth > maxNesting {
		return errNesting
	}
	for _, m := range list {
		at := c.name(prefix, m.GetName())
		c.fields(m.GetField(), at)
		c.fields(m.GetExtension(), at)
		for _, o := range m.GetOneofDecl() {
			c.name(at, o.GetName())
		}
		c.enums(m.GetEnumType(), at)
		if err := c.messages(m.GetNestedType(), at, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (c *census) fields(list []*descriptorpb.FieldDescriptorProto, prefix int) {
	for _, f := range list {
		c.name(prefix, f.GetName())
		if f.GetTypeName() != "" {
			c.typed++
		}
	}
}

func (c *census) enums(list []*descriptorpb.EnumDescriptorProto, prefix int) {
	for _, e := range list {
		c.name(prefix, e.GetName())
		for _, v := range e.GetValue() {
			c.name(prefix, v.GetName())
		}
	}
}

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
