package registry

import (
	"context"
	"encoding/base64"
	"fmt"

	"github.com/bufbuild/protocompile"
	"github.com/jhump/protoreflect/v2/protoprint"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

const (
	// mainFile is the path that the compiled schema has for the compiler. No reference may have this name.
	mainFile = "registry/main/schema.proto"
	// serializedName is the file name in a schema that is returned as a descriptor.
	serializedName = "default"
)

// canonicalProtobuf returns a schema as .proto text, and a text that is equal for equal schemas. The
// schema is .proto text or a FileDescriptorProto in base64.
func canonicalProtobuf(schema string, used map[string]string, normalize bool) (text, identity string, err error) {
	main := protocompile.SearchResult{}
	descriptor, isDescriptor := decodeDescriptor(schema)
	if isDescriptor {
		main.Proto = descriptor
	}
	file, err := compile(main, schema, used)
	if err != nil {
		return "", "", err
	}
	printer := protoprint.Printer{OmitComments: protoprint.CommentsAll, SortElements: normalize}
	identity, err = printer.PrintProtoToString(file)
	if isDescriptor || normalize {
		schema = identity
	}
	return schema, identity, err
}

// decodeDescriptor decodes a FileDescriptorProto in base64. It cannot mistake the text of a .proto file for base64,
// because such a text contains semicolons or braces.
func decodeDescriptor(schema string) (*descriptorpb.FileDescriptorProto, bool) {
	raw, err := base64.StdEncoding.DecodeString(schema)
	if err != nil {
		return nil, false
	}
	descriptor := &descriptorpb.FileDescriptorProto{}
	if err := proto.Unmarshal(raw, descriptor); err != nil {
		return nil, false
	}
	descriptor.Name = proto.String(mainFile)
	return descriptor, true
}

// compile compiles a schema with its references.
func compile(main protocompile.SearchResult, text string, used map[string]string) (protoreflect.FileDescriptor, error) {
	sources := map[string]string{}
	for _, files := range []map[string]string{confluentFiles, used} {
		for name, source := range files {
			sources[name] = source
		}
	}
	sources[mainFile] = text
	resolver := &protocompile.SourceResolver{Accessor: protocompile.SourceAccessorFromMap(sources)}
	compiler := protocompile.Compiler{
		Resolver: protocompile.WithStandardImports(protocompile.ResolverFunc(
			func(path string) (protocompile.SearchResult, error) {
				if path == mainFile && main.Proto != nil {
					return main, nil
				}
				return resolver.FindFileByPath(path)
			})),
		MaxParallelism: 1,
	}
	files, err := compiler.Compile(context.Background(), mainFile)
	if err != nil {
		return nil, err
	}
	return files[0], nil
}

// serialize returns a Protobuf schema as a FileDescriptorProto in base64.
func (s *store) serialize(of *schema) (string, error) {
	used := map[string]string{}
	if err := s.collect(of.references, used); err != nil {
		return "", err
	}
	file, err := compile(protocompile.SearchResult{}, of.text, used)
	if err != nil {
		return "", fmt.Errorf("compile schema %d: %w", of.id, err)
	}
	descriptor := protodesc.ToFileDescriptorProto(file)
	descriptor.Name = proto.String(serializedName)
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(descriptor)
	return base64.StdEncoding.EncodeToString(raw), err
}

// confluentFiles are .proto files that schemas may import from every registry, reduced to what matters for encoded
// values.
var confluentFiles = map[string]string{
	"confluent/meta.proto": `syntax = "proto3";
package confluent;
import "google/protobuf/descriptor.proto";
message Meta {
  string doc = 1;
  map<string, string> params = 2;
  repeated string tags = 3;
  repeated Rule rules = 4;
}
message Rule {
  string name = 1;
  string doc = 2;
  string expr = 3;
  string sql = 4;
}
extend google.protobuf.FileOptions { Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
`,
	"confluent/type/decimal.proto": `syntax = "proto3";
package confluent.type;
message Decimal {
  bytes value = 1;
  uint32 precision = 2;
  int32 scale = 3;
}
`,
	"confluent/types/decimal.proto": `syntax = "proto3";
import public "confluent/type/decimal.proto";
`,
	"confluent/type/variant.proto": `syntax = "proto3";
package confluent.type;
message Variant {
  bytes metadata = 1;
  bytes value = 2;
}
`,
}
