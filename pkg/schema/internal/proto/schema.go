// Package proto translates values between Protobuf's binary encoding and its canonical JSON form.
//
// Reading order:
//   - schema.go: a compiled schema, and how a value names its message type
//   - limits.go: limits for reading messages
//   - decode.go: binary to JSON
//   - encode.go: JSON to binary; keeps unknown fields
//   - explain.go: finds the field that does not fit
package proto

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/parser"
	"github.com/bufbuild/protocompile/reporter"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/dlq-manager/dlq-manager/pkg/schema/internal/codec"
)

// Schema is a compiled file of message types. It does not change and is safe for concurrent use.
type Schema struct {
	file  protoreflect.FileDescriptor
	types *dynamicpb.Types

	once   sync.Once
	fields map[string][]protoreflect.FieldDescriptor // see fieldsByName
}

const (
	mainFile       = "dlq-manager/schema.proto"
	compileTimeout = 10 * time.Second
	// MaxNesting is the maximum nesting of a FileDescriptorProto.
	MaxNesting = 30
)

// Parse compiles a file. The parameter schema is its text, or a FileDescriptorProto in base64. references are the files
// that it imports, by the names in the imports. Google's own files, and those in builtin, need no reference.
func Parse(schema string, references map[string]string) (*Schema, error) {
	sources := map[string]string{}
	for name, text := range references {
		sources[name] = text
	}
	for name, text := range builtin {
		if _, given := sources[name]; !given {
			sources[name] = text
		}
	}
	main, err := open(mainFile, schema)
	if err != nil {
		return nil, fmt.Errorf("compile the Protobuf schema: %w", err)
	}
	resolver := protocompile.ResolverFunc(func(path string) (protocompile.SearchResult, error) {
		if path == mainFile {
			return main, nil
		}
		text, ok := sources[path]
		if !ok {
			return protocompile.SearchResult{}, protoregistry.NotFound
		}
		return open(path, text)
	})
	ctx, cancel := context.WithTimeout(context.Background(), compileTimeout)
	defer cancel()
	compiler := protocompile.Compiler{Resolver: protocompile.WithStandardImports(resolver), MaxParallelism: 1}
	files, err := compiler.Compile(ctx, mainFile)
	if err != nil {
		return nil, fmt.Errorf("compile the Protobuf schema: %w", err)
	}
	registry := &protoregistry.Files{}
	if err := register(registry, files[0]); err != nil {
		return nil, fmt.Errorf("compile the Protobuf schema: %w", err)
	}
	return &Schema{file: files[0], types: dynamicpb.NewTypes(registry)}, nil
}

// open parses a file of a schema.
func open(path, text string) (found protocompile.SearchResult, err error) {
	if found.Proto = decodeFile(text); found.Proto != nil {
		found.Proto.Name = proto.String(path)
		return found, nil
	}
	handler := reporter.NewHandler(nil)
	parsed, err := parser.Parse(path, strings.NewReader(text), handler)
	if err != nil {
		return found, err //nolint:wrapcheck // the error names the file and the line
	}
	found.ParseResult, err = parser.ResultFromAST(parsed, true, handler)
	return found, err //nolint:wrapcheck // as above
}

func register(registry *protoregistry.Files, file protoreflect.FileDescriptor) error {
	if _, err := registry.FindFileByPath(file.Path()); err == nil {
		return nil
	}
	for i := range file.Imports().Len() {
		if err := register(registry, file.Imports().Get(i).FileDescriptor); err != nil {
			return err
		}
	}
	return registry.RegisterFile(file)
}

// Raw decodes a text in base64. ok is false for any other text, as that of a .proto file.
func Raw(text string) (raw []byte, ok bool) {
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	return raw, err == nil && len(raw) > 0
}

// decodeFile decodes a FileDescriptorProto in base64, the form in which some clients register schemas. It returns nil
// when the text is no such descriptor.
func decodeFile(text string) *descriptorpb.FileDescriptorProto {
	raw, ok := Raw(text)
	if !ok {
		return nil
	}
	var file descriptorpb.FileDescriptorProto
	if (proto.UnmarshalOptions{RecursionLimit: MaxNesting}).Unmarshal(raw, &file) != nil {
		return nil
	}
	return &file
}

var errIndexes = errors.New("the message indexes are not valid")

// maxIndexes is the maximum number of message indexes in a value. A value has one index for each level at which its
// message type is nested in the file.
const maxIndexes = 100

// Indexes reads the message indexes at the beginning of data, which say where in its file the message type is. It
// returns the indexes, and the number of bytes that they use. A single zero byte stands for the first message type.
func Indexes(data []byte) (indexes []int, size int, err error) {
	count, n := binary.Varint(data)
	if n <= 0 || count < 0 || count > maxIndexes {
		return nil, 0, errIndexes
	}
	if count == 0 {
		return []int{0}, n, nil
	}
	size = n
	for range count {
		i, n := binary.Varint(data[size:])
		if n <= 0 || i < 0 || i > 1<<20 {
			return nil, 0, errIndexes
		}
		indexes = append(indexes, int(i))
		size += n
	}
	return indexes, size, nil
}

// AppendIndexes appends message indexes to dst in the form that Indexes reads.
func AppendIndexes(dst []byte, indexes []int) []byte {
	if len(indexes) == 1 && indexes[0] == 0 {
		return append(dst, 0)
	}
	dst = binary.AppendVarint(dst, int64(len(indexes)))
	for _, i := range indexes {
		dst = binary.AppendVarint(dst, int64(i))
	}
	return dst
}

func (s *Schema) message(indexes []int) (protoreflect.MessageDescriptor, error) {
	if len(indexes) == 0 {
		return nil, &codec.Error{Path: "$", Reason: errIndexes.Error()}
	}
	list := s.file.Messages()
	var found protoreflect.MessageDescriptor
	for _, i := range indexes {
		if i >= list.Len() {
			return nil, &codec.Error{Path: "$", Reason: fmt.Sprintf("the schema has no message with the indexes %v", indexes)}
		}
		found = list.Get(i)
		list = found.Messages()
	}
	return found, nil
}

// Name returns the full name of the message type with these indexes; "" when there is none.
func (s *Schema) Name(indexes []int) string {
	if found, err := s.message(indexes); err == nil {
		return string(found.FullName())
	}
	return ""
}

// Find returns the indexes of the message type with that full name; nil when there is none.
func (s *Schema) Find(name string) []int { return find(s.file.Messages(), name, nil) }

func find(list protoreflect.MessageDescriptors, name string, at []int) []int {
	for i := range list.Len() {
		indexes := append(at[:len(at):len(at)], i)
		if string(list.Get(i).FullName()) == name {
			return indexes
		}
		if found := find(list.Get(i).Messages(), name, indexes); found != nil {
			return found
		}
	}
	return nil
}

// builtin contains the files that a schema may import without a reference, because the registry's own clients contain
// them.
var builtin = map[string]string{
	"confluent/meta.proto": `syntax = "proto3";
package confluent;
import "google/protobuf/descriptor.proto";
message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; }
extend google.protobuf.FileOptions { Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
`,
	"confluent/type/decimal.proto": `syntax = "proto3";
package confluent.type;
message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
`,
}
