package proto

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/dlq-manager/dlq-manager/pkg/schema/internal/codec"
)

// explain finds the first field of a JSON text, by the order of the names, that does not fit the schema. It does not
// use the errors of the library, because these quote the value.
func (s *Schema) explain(descriptor protoreflect.MessageDescriptor, text []byte) error {
	v, err := codec.Value(text)
	if err != nil {
		return err
	}
	x := explainer{schema: s, work: maxWork * len(text)}
	if err := x.search(descriptor, v); err != nil {
		return err
	}
	return &codec.Error{Path: "$", Reason: "does not fit " + string(descriptor.FullName())}
}

type explainer struct {
	schema *Schema
	path   codec.Path
	// number of bytes that may still be parsed; the search parses a nested value again at each level, so this limits
	// its work
	work int
}

const maxWork = 20

var errWork = errors.New("the search for the field takes too long")

// search finds the path of the field that does not fit the schema. When it has done too much work, it returns the part
// of the path that it has found.
func (x *explainer) search(descriptor protoreflect.MessageDescriptor, v any) (err error) {
	defer func() {
		if fault := recover(); fault == errWork { //nolint:errorlint // a panic's value
			err = x.path.Errorf("does not fit the schema")
		} else if fault != nil {
			panic(fault)
		}
	}()
	return x.message(descriptor, v)
}

func (x *explainer) message(descriptor protoreflect.MessageDescriptor, v any) error {
	members, ok := v.(map[string]any)
	if !ok || strings.HasPrefix(string(descriptor.FullName()), "google.protobuf.") {
		return x.path.Errorf("must be %s in its JSON form", descriptor.FullName())
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		x.path.Member(name)
		field := descriptor.Fields().ByJSONName(name)
		if field == nil {
			field = descriptor.Fields().ByTextName(name)
		}
		if field == nil {
			return x.path.Errorf("is not in the schema")
		}
		if !x.fits(descriptor, name, members[name]) {
			return x.field(descriptor, field, name, members[name])
		}
		x.path.Pop()
	}
	return nil
}

// fits reports whether the library accepts a message that has only this member.
func (x *explainer) fits(descriptor protoreflect.MessageDescriptor, name string, v any) bool {
	text, err := json.Marshal(map[string]any{name: v})
	if x.work -= len(text); x.work < 0 {
		panic(errWork)
	}
	return err == nil && x.schema.unmarshal(text, dynamicpb.NewMessage(descriptor)) == nil
}

// field finds the part of a field's value that does not fit the schema.
func (x *explainer) field(descriptor protoreflect.MessageDescriptor, f protoreflect.FieldDescriptor, name string, v any) error {
	if items, ok := v.([]any); ok && f.IsList() {
		for i, item := range items {
			if !x.fits(descriptor, name, []any{item}) {
				x.path.Element(i)
				return x.value(f, item)
			}
		}
	}
	if members, ok := v.(map[string]any); ok && f.IsMap() {
		for key, item := range members {
			if !x.fits(descriptor, name, map[string]any{key: item}) {
				x.path.Entry()
				return x.value(f.MapValue(), item)
			}
		}
	}
	switch {
	case f.IsList():
		return x.path.Errorf("must be a list")
	case f.IsMap():
		return x.path.Errorf("must be an object")
	}
	return x.value(f, v)
}

func (x *explainer) value(f protoreflect.FieldDescriptor, v any) error {
	switch f.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		if err := x.message(f.Message(), v); err != nil {
			return err
		}
		return x.path.Errorf("does not fit %s", f.Message().FullName())
	case protoreflect.EnumKind:
		var names []string
		for i := 0; i < f.Enum().Values().Len(); i++ {
			names = append(names, string(f.Enum().Values().Get(i).Name()))
		}
		return x.path.Errorf("must be one of the enum's values: %s", codec.Listed(names))
	case protoreflect.BytesKind:
		return x.path.Errorf("must be bytes in base64")
	default:
		return x.path.Errorf("must be a value of type %s", f.Kind())
	}
}
