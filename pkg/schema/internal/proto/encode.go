package proto

import (
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/dlq-manager/dlq-manager/pkg/schema/internal/codec"
)

// Original is the message that an edited message replaces.
type Original struct {
	Schema  *Schema // schema with which the message was written
	Indexes []int
	Data    []byte
}

func (o *Original) read() (protoreflect.Message, error) {
	descriptor, err := o.Schema.message(o.Indexes)
	if err != nil {
		return nil, err
	}
	return o.Schema.read(descriptor, o.Data)
}

// Encode returns the encoding of a message in JSON form. If original is not nil, the result also contains the unknown
// fields of original: those that its schema does not know. Unknown fields of the elements of a list are kept too. If
// the list has as many elements as before, they go to the element with the same index, otherwise to an element with
// equal known fields. The error is a *codec.Error, which names the field, or a *codec.LimitError.
func (s *Schema) Encode(indexes []int, text []byte, original *Original, limit int) ([]byte, error) {
	descriptor, err := s.message(indexes)
	if err != nil {
		return nil, err
	}
	if len(text) > limit {
		return nil, &codec.LimitError{Kind: codec.TooLarge}
	}
	m := dynamicpb.NewMessage(descriptor)
	if err := s.unmarshal(text, m); err != nil {
		return nil, s.explain(descriptor, text)
	}
	if original != nil {
		if before, err := original.read(); err == nil {
			s.keepUnknown(m, before)
		}
	}
	data, err := proto.MarshalOptions{Deterministic: true, AllowPartial: true}.Marshal(m)
	switch {
	case err != nil:
		return nil, &codec.Error{Path: "$", Reason: "cannot be encoded"}
	case len(data) > limit:
		return nil, &codec.LimitError{Kind: codec.TooLarge}
	}
	return data, nil
}

func (s *Schema) unmarshal(text []byte, m proto.Message) error {
	return protojson.UnmarshalOptions{Resolver: s.types, RecursionLimit: codec.MaxDepth}.Unmarshal(text, m)
}

// keepUnknown copies the unknown fields of the message before to the message after. It does the same for nested
// messages: those in the same field, under the same key of a map, or in the same element of a list.
func (s *Schema) keepUnknown(after, before protoreflect.Message) {
	if unknown := s.unset(after, before.GetUnknown()); len(unknown) > 0 {
		after.SetUnknown(append(unknown, after.GetUnknown()...))
	}
	before.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		g := s.field(after.Descriptor(), f.Number())
		if f.Message() == nil || g == nil || g.Message() == nil || g.IsMap() != f.IsMap() || g.IsList() != f.IsList() || !after.Has(g) {
			return true
		}
		switch {
		case f.IsMap():
			if f.MapValue().Message() != nil && g.MapValue().Message() != nil && f.MapKey().Kind() == g.MapKey().Kind() {
				s.keepInMap(after.Mutable(g).Map(), v.Map())
			}
		case f.IsList():
			s.keepInList(after.Mutable(g).List(), v.List())
		default:
			s.keepUnknown(after.Mutable(g).Message(), v.Message())
		}
		return true
	})
}

// unset returns those of the given fields that the message m does not contain. The fields were unknown in the original
// message; the schema of m may know some of them.
func (s *Schema) unset(m protoreflect.Message, fields protoreflect.RawFields) (unset protoreflect.RawFields) {
	for len(fields) > 0 {
		number, _, size := protowire.ConsumeField(fields)
		if size < 0 {
			return unset
		}
		f := s.field(m.Descriptor(), number)
		switch {
		case f == nil:
		case m.Has(f), f.ContainingOneof() != nil && m.WhichOneof(f.ContainingOneof()) != nil:
			fields = fields[size:]
			continue
		}
		unset, fields = append(unset, fields[:size]...), fields[size:]
	}
	return unset
}

func (s *Schema) keepInMap(after, before protoreflect.Map) {
	before.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		if after.Has(k) {
			s.keepUnknown(after.Mutable(k).Message(), v.Message())
		}
		return true
	})
}

func (s *Schema) keepInList(after, before protoreflect.List) {
	if after.Len() == before.Len() {
		for i := range after.Len() {
			s.keepUnknown(after.Get(i).Message(), before.Get(i).Message())
		}
		return
	}
	// by the encoded known fields of an element: indexes of such elements in before
	same, element := map[string][]int{}, after.NewElement().Message().Type()
	for j := range before.Len() {
		key := s.known(before.Get(j).Message(), element)
		same[key] = append(same[key], j)
	}
	next := 0
	for i := range after.Len() {
		key := s.known(after.Get(i).Message(), element)
		for len(same[key]) > 0 && same[key][0] < next {
			same[key] = same[key][1:]
		}
		if len(same[key]) > 0 {
			next = same[key][0] + 1
			s.keepUnknown(after.Get(i).Message(), before.Get(next-1).Message())
		}
	}
}

// known returns a text by which messages can be compared: the message m, encoded without its unknown fields. It reads m
// as a message of the type in the parameter as; if that is not possible, it returns "".
func (s *Schema) known(m protoreflect.Message, as protoreflect.MessageType) string {
	clone := proto.Clone(m.Interface())
	dropUnknown(clone.ProtoReflect())
	key, err := proto.MarshalOptions{Deterministic: true, AllowPartial: true}.Marshal(clone)
	if err != nil || m.Descriptor() == as.Descriptor() {
		return string(key)
	}
	read := as.New()
	if (proto.UnmarshalOptions{AllowPartial: true, Resolver: s.types, RecursionLimit: codec.MaxDepth}).Unmarshal(key, read.Interface()) != nil {
		return ""
	}
	return s.known(read, as)
}

func dropUnknown(m protoreflect.Message) {
	m.SetUnknown(nil)
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap():
			if f.MapValue().Message() != nil {
				v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
					dropUnknown(v.Message())
					return true
				})
			}
		case f.Message() == nil:
		case f.IsList():
			for i := range v.List().Len() {
				dropUnknown(v.List().Get(i).Message())
			}
		default:
			dropUnknown(v.Message())
		}
		return true
	})
}
