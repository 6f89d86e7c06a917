package proto

import (
	"bytes"
	"encoding/json"
	"errors"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/dlq-manager/dlq-manager/pkg/schema/internal/codec"
)

// Decode returns the canonical JSON form of a message, of at most limit bytes. The error is a *codec.Error when the
// bytes do not fit the schema, or a *codec.LimitError.
func (s *Schema) Decode(indexes []int, data []byte, limit int) ([]byte, error) {
	descriptor, err := s.message(indexes)
	if err != nil {
		return nil, err
	}
	if err := newMeasure(s, limit).message(descriptor, data, 0); err != nil && !errors.Is(err, errData) {
		return nil, err
	}
	m, err := s.read(descriptor, data)
	if err != nil {
		return nil, err
	}
	text, err := protojson.MarshalOptions{Resolver: s.types}.Marshal(m.Interface())
	if err != nil {
		return nil, &codec.Error{Path: "$", Reason: "has no JSON form: a well-known type holds a value out of its range, or an Any of an unknown type"}
	}
	var compact bytes.Buffer // the library varies the white space in its JSON on purpose, so Compact removes it
	if err := json.Compact(&compact, text); err != nil {
		return nil, &codec.Error{Path: "$", Reason: "has no JSON form"}
	}
	if compact.Len() > limit {
		return nil, &codec.LimitError{Kind: codec.TooLarge}
	}
	return compact.Bytes(), nil
}

func (s *Schema) read(descriptor protoreflect.MessageDescriptor, data []byte) (protoreflect.Message, error) {
	m := dynamicpb.NewMessage(descriptor)
	options := proto.UnmarshalOptions{AllowPartial: true, Resolver: s.types, RecursionLimit: codec.MaxDepth}
	if err := options.Unmarshal(data, m); err != nil {
		return nil, &codec.Error{Path: "$", Reason: "is not an encoded " + string(descriptor.FullName())}
	}
	return m, nil
}
