package proto

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Names returns the names of the members of a decoded message: a field has its name in the schema beside that in JSON.
// It returns nil when the schema has no message type with these indexes.
func (s *Schema) Names(indexes []int) entity.Names {
	descriptor, err := s.message(indexes)
	if err != nil {
		return nil
	}
	return messageNames{descriptor, s}
}

// messageNames are the names of the fields of a message type.
type messageNames struct {
	protoreflect.MessageDescriptor
	schema *Schema
}

// Member implements entity.Names.
func (n messageNames) Member(name string) (all []string, value entity.Names, branch bool) {
	f := n.Fields().ByJSONName(name)
	if f == nil {
		f = n.Fields().ByTextName(name) // an edit may use this name too
	}
	switch {
	case n.FullName() == "google.protobuf.Any":
		all, value = n.schema.anywhere(name)
		branch = name == "value" // JSON writes a well-known type so; its fields are those of the Any
	case f != nil:
		all, value = n.schema.names(f)
	case strings.HasPrefix(name, "["):
		if x, err := n.schema.types.FindExtensionByName(protoreflect.FullName(strings.Trim(name, "[]"))); err == nil {
			all, value = n.schema.names(x.TypeDescriptor())
			all = append(all, string(x.TypeDescriptor().FullName()))
		}
	}
	if value != (anything{}) && !slices.Contains(all, name) {
		all = append(all, name)
	}
	return all, value, branch && value != (anything{})
}

// Element implements entity.Names: a message in a list has the names of its type.
func (n messageNames) Element() entity.Names { return n }

// Known implements entity.Names.
func (n messageNames) Known() (all []string) {
	for i := range n.Fields().Len() {
		all = append(all, n.Fields().Get(i).JSONName())
	}
	return all
}

// names returns the names of a field, and those in its value.
func (s *Schema) names(f protoreflect.FieldDescriptor) (all []string, value entity.Names) {
	all = []string{f.JSONName()}
	for _, name := range []string{string(f.Name()), f.TextName(), camelCase(string(f.Name()))} {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	switch {
	case f.IsMap() && f.MapValue().Message() != nil:
		value = entryNames{messageNames{f.MapValue().Message(), s}}
	case !f.IsMap() && f.Message() != nil:
		value = messageNames{f.Message(), s}
	}
	return all, value
}

// camelCase returns the name that a field has in JSON without json_name, so that a json_name takes no mask off.
func camelCase(name string) string {
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		c := name[i]
		if c == '_' {
			continue
		}
		if i > 0 && name[i-1] == '_' && c >= 'a' && c <= 'z' {
			c -= 'a' - 'A'
		}
		b.WriteByte(c)
	}
	return b.String()
}

// anywhere returns the names of all fields that JSON calls by that name: the type of a message in an Any is not known
// here.
func (s *Schema) anywhere(name string) (all []string, value entity.Names) {
	fields := s.fieldsByName()[name]
	if len(fields) > maxTypes {
		return nil, anything{}
	}
	var values anyOf
	for _, f := range fields {
		names, value := s.names(f)
		all, values = append(all, names...), values.with(value)
	}
	return all, values.names()
}

// maxTypes is how many types a value in an Any may have. Beyond that, any mask may call its members: a schema must not
// make the look-up of names expensive.
const maxTypes = 64

// fieldsByName returns the fields of all message types of the file and of the files that it imports, by their name in
// JSON.
func (s *Schema) fieldsByName() map[string][]protoreflect.FieldDescriptor {
	s.once.Do(func() {
		s.fields = map[string][]protoreflect.FieldDescriptor{}
		seen := map[string]bool{}
		var add func(list protoreflect.MessageDescriptors)
		add = func(list protoreflect.MessageDescriptors) {
			for i := range list.Len() {
				m := list.Get(i)
				for j := range m.Fields().Len() {
					f := m.Fields().Get(j)
					s.fields[f.JSONName()] = append(s.fields[f.JSONName()], f)
				}
				add(m.Messages())
			}
		}
		var files func(file protoreflect.FileDescriptor)
		files = func(file protoreflect.FileDescriptor) {
			if seen[file.Path()] {
				return
			}
			seen[file.Path()] = true
			add(file.Messages())
			for i := range file.Imports().Len() {
				files(file.Imports().Get(i).FileDescriptor)
			}
		}
		files(s.file)
	})
	return s.fields
}

// entryNames are the names in the values of a map. The key of an entry is a step of a path, or none, so that a mask can
// name a field of all entries.
type entryNames struct{ value entity.Names }

// Member implements entity.Names.
func (n entryNames) Member(key string) (all []string, value entity.Names, branch bool) {
	return []string{key}, n.value, true
}

// Element implements entity.Names.
func (entryNames) Element() entity.Names { return nil }

// Known implements entity.Names.
func (entryNames) Known() []string { return nil }

// anyOf are the names of several types, of which a value may have any.
type anyOf []entity.Names

// with returns the list with one more type, if that is known and new.
func (n anyOf) with(value entity.Names) anyOf {
	if value == nil || slices.Contains(n, value) {
		return n
	}
	return append(n, value)
}

func (n anyOf) names() entity.Names {
	switch {
	case len(n) == 0:
		return nil
	case len(n) > maxTypes:
		return anything{}
	}
	return &anyNames{n}
}

// anyNames is an anyOf that can be compared.
type anyNames struct{ types anyOf }

// Member implements entity.Names.
func (n *anyNames) Member(name string) (all []string, value entity.Names, branch bool) {
	var values anyOf
	for _, one := range n.types {
		names, inner, is := one.Member(name)
		if names == nil {
			return nil, anything{}, false
		}
		all, branch = append(all, names...), branch || is
		if several, ok := inner.(*anyNames); ok {
			for _, inner := range several.types {
				values = values.with(inner)
			}
			continue
		}
		values = values.with(inner)
	}
	return all, values.names(), branch
}

// Element implements entity.Names.
func (n *anyNames) Element() entity.Names { return n }

// Known implements entity.Names.
func (n *anyNames) Known() (all []string) {
	for _, one := range n.types {
		all = append(all, one.Known()...)
	}
	return all
}

// anything are the names of a value of which too many types are possible: any mask may call its members.
type anything struct{}

// Member implements entity.Names.
func (anything) Member(string) (all []string, value entity.Names, branch bool) {
	return nil, anything{}, false
}

// Element implements entity.Names.
func (anything) Element() entity.Names { return anything{} }

// Known implements entity.Names.
func (anything) Known() []string { return []string{} }
