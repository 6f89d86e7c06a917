package proto

import (
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/dlq-manager/dlq-manager/pkg/schema/internal/codec"
)

// Encode returns the encoding of a message in JSON form. It keeps the unknown fields of original, which is a message of
// the same type or of an earlier version of it; nil: there is no original. If a list keeps its length, the unknown
// fields of an element go to the element with the same index, else to the element with the same known fields. The error
// is *codec.Error, which names the field, or *codec.LimitError.
func (s *Schema) Encode(indexes []int, text, original []byte, limit int) ([]byte, error) {
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
		if before, err := s.read(descriptor, original); err == nil {
			keepUnknown(m, before)
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

// keepUnknown copies the unknown fields of before to after, and the unknown fields of each nested message to the nested
// message of the same field, key or element.
func keepUnknown(after, before protoreflect.Message) {
	if unknown := before.GetUnknown(); len(unknown) > 0 {
		after.SetUnknown(append(unknown[:len(unknown):len(unknown)], after.GetUnknown()...))
	}
	before.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if !after.Has(f) {
			return true
		}
		switch {
		case f.IsMap():
			if f.MapValue().Message() != nil {
				keepInMap(after.Mutable(f).Map(), v.Map())
			}
		case f.Message() == nil:
		case f.IsList():
			keepInList(after.Mutable(f).List(), v.List())
		default:
			keepUnknown(after.Mutable(f).Message(), v.Message())
		}
		return true
	})
}

func keepInMap(after, before protoreflect.Map) {
	before.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		if after.Has(k) {
			keepUnknown(after.Mutable(k).Message(), v.Message())
		}
		return true
	})
}

func keepInList(after, before protoreflect.List) {
	if after.Len() == before.Len() {
		for i := range after.Len() {
			keepUnknown(after.Get(i).Message(), before.Get(i).Message())
		}
		return
	}
	same := map[string][]int{} // elements of before by their known fields
	for j := range before.Len() {
		key := known(before.Get(j).Message())
		same[key] = append(same[key], j)
	}
	next := 0
	for i := range after.Len() {
		key := known(after.Get(i).Message())
		for len(same[key]) > 0 && same[key][0] < next {
			same[key] = same[key][1:]
		}
		if len(same[key]) > 0 {
			next = same[key][0] + 1
			keepUnknown(after.Get(i).Message(), before.Get(next-1).Message())
		}
	}
}

// known returns a key of a message without its unknown fields.
func known(m protoreflect.Message) string {
	m = proto.Clone(m.Interface()).ProtoReflect()
	dropUnknown(m)
	key, _ := proto.MarshalOptions{Deterministic: true, AllowPartial: true}.Marshal(m.Interface())
	return string(key)
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
