package proto

import (
	"bytes"
	"encoding/json"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/dlq-manager/dlq-manager/pkg/schema/internal/codec"
)

// Decode returns the canonical JSON form of a message, at most limit bytes of it. The error is *codec.Error for bytes
// that do not fit the schema, and *codec.LimitError.
func (s *Schema) Decode(indexes []int, data []byte, limit int) ([]byte, error) {
	m, err := s.read(indexes, data)
	if err != nil {
		return nil, err
	}
	budget := limit
	if err := fits(m, &budget, 0); err != nil {
		return nil, err
	}
	text, err := protojson.MarshalOptions{Resolver: s.types}.Marshal(m.Interface())
	if err != nil {
		return nil, &codec.Error{Path: "$", Reason: "has no JSON form: a well-known type holds a value out of its range, or an Any of an unknown type"}
	}
	var compact bytes.Buffer // compact removes white space, which the library varies on purpose
	if err := json.Compact(&compact, text); err != nil {
		return nil, &codec.Error{Path: "$", Reason: "has no JSON form"}
	}
	if compact.Len() > limit {
		return nil, &codec.LimitError{Kind: codec.TooLarge}
	}
	return compact.Bytes(), nil
}

func (s *Schema) read(indexes []int, data []byte) (protoreflect.Message, error) {
	descriptor, err := s.message(indexes)
	if err != nil {
		return nil, err
	}
	m := dynamicpb.NewMessage(descriptor)
	options := proto.UnmarshalOptions{AllowPartial: true, Resolver: s.types, RecursionLimit: codec.MaxDepth}
	if err := options.Unmarshal(data, m); err != nil {
		return nil, &codec.Error{Path: "$", Reason: "is not an encoded " + string(descriptor.FullName())}
	}
	return m, nil
}

// fits reduces the budget by about the size of a message as JSON, and fails when nothing is left. A name that is long
// in the schema makes the JSON many times as long as the encoded message.
func fits(m protoreflect.Message, budget *int, depth int) (err error) {
	if depth > codec.MaxDepth {
		return &codec.LimitError{Kind: codec.TooDeep}
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		*budget -= len(f.JSONName()) + 4
		switch {
		case f.IsList():
			list := v.List()
			for i := 0; i < list.Len() && err == nil; i++ {
				err = fitsValue(f, list.Get(i), budget, depth)
			}
		case f.IsMap():
			v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
				*budget -= len(k.String()) + 4
				err = fitsValue(f.MapValue(), v, budget, depth)
				return err == nil
			})
		default:
			err = fitsValue(f, v, budget, depth)
		}
		return err == nil
	})
	return err
}

func fitsValue(f protoreflect.FieldDescriptor, v protoreflect.Value, budget *int, depth int) error {
	switch f.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		*budget -= 3
		if err := fits(v.Message(), budget, depth+1); err != nil {
			return err
		}
	case protoreflect.EnumKind:
		*budget--
		if value := f.Enum().Values().ByNumber(v.Enum()); value != nil {
			*budget -= len(value.Name()) + 2
		}
	case protoreflect.StringKind:
		*budget -= len(v.String()) + 3
	case protoreflect.BytesKind:
		*budget -= len(v.Bytes()) + 3
	default:
		*budget -= 2
	}
	if *budget < 0 {
		return &codec.LimitError{Kind: codec.TooLarge}
	}
	return nil
}
