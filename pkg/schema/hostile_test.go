package schema

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	protobuf "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/schema/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/schema/internal/proto"
)

// allocated returns the number of bytes that the function work allocates. Work that takes long without allocating would
// not end in time, so the tests need no time limits.
func allocated(work func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	work()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc) //nolint:gosec // less than 2^63
}

// each returns n copies of the text, with the separator between them. In each copy, %d is replaced by the copy's
// number.
func each(n int, separator, text string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = strings.ReplaceAll(text, "%d", fmt.Sprint(i+1))
	}
	return strings.Join(list, separator)
}

func nested(n int, begin, middle, end string) string {
	return strings.Repeat(begin, n) + middle + strings.Repeat(end, n)
}

// doubled returns a schema with n record types around a small one. Each has two fields of the type inside it with
// defaults, so the value of the defaults doubles with each type.
func doubled(n int) string {
	text := `{"type":"record","name":"R0","fields":[{"name":"x","type":"int","default":1}]}`
	for i := range n {
		text = fmt.Sprintf(`{"type":"record","name":"R%d","fields":[{"name":"a","type":%s,"default":{}},{"name":"b","type":"R%d","default":{}}]}`, i+1, text, i)
	}
	return text
}

func TestHostileSchemasAreBounded(t *testing.T) {
	long := strings.Repeat("n", 1<<20)
	for _, tt := range []struct {
		name   string
		format entity.Format
		text   string
		fault  string // the expected fault of the compiled schema; "" when it can be used
	}{
		{"TenMegabytes", entity.Avro, `{"type":"record","name":"R","fields":[],"doc":"` + strings.Repeat("x", 10<<20) + `"}`, "of memory"},
		{"AvroNesting", entity.Avro, nested(100_000, `{"type":"array","items":`, `"int"`, `}`), "of memory"},
		{"AvroCycleWithoutData", entity.Avro, `{"type":"record","name":"A","fields":[{"name":"a","type":"A"}]}`, ""},
		{"AvroUnionOfRecords", entity.Avro, `[` + each(1000, ",", `{"type":"record","name":"R%d","fields":[]}`) + `]`, ""},
		{"AvroManyFields", entity.Avro, `{"type":"record","name":"R","fields":[` + each(8000, ",", `{"name":"f%d","type":["null","R"],"default":null}`) + `]}`, ""},
		{"AvroManySymbols", entity.Avro, `{"type":"enum","name":"E","symbols":[` + each(50_000, ",", `"S%d"`) + `]}`, ""},
		{
			"AvroLongNamespace", entity.Avro,
			`{"type":"record","name":"R","namespace":"` + long + `","fields":[` + each(1000, ",", `{"name":"f%d","type":{"type":"fixed","name":"x%d","size":1}}`) + `]}`,
			"of memory",
		},
		{
			"AvroLongNameAndAliases", entity.Avro,
			`{"type":"record","name":"` + long + `","aliases":[` + each(50_000, ",", `"a%d"`) + `],"fields":[]}`, "of memory",
		},
		{"AvroLargeDefault", entity.Avro, `{"type":"record","name":"R","fields":[{"name":"f","type":"string","default":"` + long + `"}]}`, "of memory"},
		{"AvroDefaultsDouble", entity.Avro, doubled(40), ""},
		{
			"AvroDefaultsTryBranches", entity.Avro,
			`{"type":"record","name":"A","fields":[{"name":"n","default":{},"type":["A",{"type":"record","name":"B","fields":[{"name":"m","type":["A","B"],"default":{}}]}]}]}`, "",
		},
		{"AvroDecimal", entity.Avro, `{"type":"bytes","logicalType":"decimal","precision":1000000,"scale":2000000000}`, "scale"},
		{"ProtobufNesting", entity.Protobuf, nested(300_000, "message M {", "", "}"), "of memory"},
		{"ProtobufNestingInComments", entity.Protobuf, nested(100_000, "message M { // }\n /* } */ ", "", "}"), "of memory"},
		{"ProtobufImportsItself", entity.Protobuf, `import "dlq-manager/schema.proto"; message M {}`, "cycle"},
		{"ProtobufManyImports", entity.Protobuf, each(5000, "", `import "a%d.proto";`), "a1.proto"},
		{"ProtobufManyFields", entity.Protobuf, `syntax = "proto3"; message M {` + each(10_000, "", "M f%d = %d;") + `}`, ""},
		{"ProtobufManyMessages", entity.Protobuf, `syntax = "proto3";` + each(10_000, "", "message M%d {}"), ""},
		{"ProtobufManySymbols", entity.Protobuf, `enum E {` + each(10_000, "", "V%d = %d;") + `}`, ""},
		{
			"ProtobufLongNames", entity.Protobuf,
			`syntax = "proto3"; message ` + long + ` {` + each(1000, "", "int32 f%d = %d;") + `}`, "of memory",
		},
		{"ProtobufDescriptor", entity.Protobuf, descriptor(5000, "p"), ""},
		{"ProtobufDescriptorWithLongPackage", entity.Protobuf, descriptor(1000, long[:50_000]), "of memory"},
		{"JSONNesting", entity.JSONSchema, nested(4000, `{"items":`, "true", "}"), ""},
		{"JSONLongPaths", entity.JSONSchema, `{"properties":{"` + long + `":{"properties":{` + each(5000, ",", `"p%d":{}`) + `}}}}`, ""},
		{"JSONUnionOfSchemas", entity.JSONSchema, `{"anyOf":[` + each(1000, ",", `{"const":%d}`) + `]}`, ""},
		{"JSONManySchemas", entity.JSONSchema, `{"anyOf":[` + each(100_000, ",", `{"const":%d}`) + `]}`, ""},
		{"JSONLongNumbers", entity.JSONSchema, `{"anyOf":[` + each(1000, ",", `{"maximum":1e99999%d}`) + `]}`, ""},
		{"JSONLargePatterns", entity.JSONSchema, `{"anyOf":[` + each(5000, ",", `{"pattern":".{1000}%d"}`) + `]}`, ""},
		{"JSONRefersToItself", entity.JSONSchema, `{"$ref":"#"}`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var c *compiled
			size := allocated(func() { c = compile(1, "", source{format: tt.format, text: tt.text}) })
			check.True(t, size < 300*len(tt.text)+64<<20, "allocated %d bytes for a schema of %d", size, len(tt.text))
			if tt.fault == "" {
				check.NoError(t, c.fault)
			} else {
				check.Says(t, c.fault, tt.fault, "fault")
				check.True(t, len(c.fault.Error()) < 1000, "a fault of %d bytes", len(c.fault.Error()))
			}
		})
	}
}

// The size with which the cache counts a compiled schema is at least the memory that the schema uses.
func TestCompiledSchemasCountWithTheirSize(t *testing.T) {
	for name, s := range map[string]source{
		"AvroFields":  {format: entity.Avro, text: `{"type":"record","name":"R","fields":[` + each(3000, ",", `{"name":"f%d","type":["null","int","string","bytes"]}`) + `]}`},
		"AvroSymbols": {format: entity.Avro, text: `{"type":"enum","name":"E","symbols":[` + each(50_000, ",", `"S%d"`) + `]}`},
		"Maps":        {format: entity.Protobuf, text: `syntax = "proto3"; message M {` + each(3500, "", "map<int32, M> f%d = %d;") + `}`},
		"Messages":    {format: entity.Protobuf, text: `syntax = "proto3";` + each(10_000, "", "message M%d {}")},
		"Symbols":     {format: entity.Protobuf, text: `enum E {` + each(10_000, "", "V%d = %d;") + `}`},
		"Properties":  {format: entity.JSONSchema, text: `{"properties":{` + each(5000, ",", `"p%d":{"type":"string"}`) + `}}`},
		"Groups":      {format: entity.Protobuf, text: `syntax = "proto2"; message M {` + each(5000, "", "optional group G%d = %d {}") + `}`},
		"LongNames":   {format: entity.Protobuf, text: `syntax = "proto3"; message ` + strings.Repeat("n", 20_000) + ` {` + each(300, "", "M f%d = %d;") + `} message M {}`},
		"LongTypes":   {format: entity.Protobuf, text: `syntax = "proto3"; message ` + strings.Repeat("n", 20_000) + ` { message A { message B {` + each(100, "", "A f%d = %d;") + `} } }`},
		"Classes":     {format: entity.JSONSchema, text: `{"anyOf":[` + each(15, ",", `{"pattern":"[a-cA-Ce-g0-4%d]{900}"}`) + `]}`},
		"LongPackage": {format: entity.Avro, text: `{"type":"record","name":"R","namespace":"` + strings.Repeat("n", 20_000) + `","fields":[` + each(50, ",", `{"name":"f%d","type":{"type":"fixed","name":"x%d","size":1}}`) + `]}`},
		"Descriptor":  {format: entity.Protobuf, text: descriptor(5000, "p")},
		"True":        {format: entity.JSONSchema, text: `{"anyOf":[` + each(9000, ",", `true`) + `]}`},
		"Patterns":    {format: entity.JSONSchema, text: `{"anyOf":[` + each(40, ",", `{"pattern":".{1000}%d"}`) + `]}`},
		"LongPaths":   {format: entity.JSONSchema, text: `{"properties":{"` + strings.Repeat("n", 20_000) + `":{"properties":{` + each(50, ",", `"p%d":{}`) + `}}}}`},
		"Constants":   {format: entity.JSONSchema, text: `{"anyOf":[` + each(5000, ",", `{"const":%d}`) + `]}`},
	} {
		t.Run(name, func(t *testing.T) {
			before := heapInUse()
			c := compile(1, "", s)
			kept := heapInUse() - before
			check.Require(t, c.fault == nil && c.size() > 0 && kept > c.size(), "the schema was not compiled: %v", c.fault)
			check.True(t, kept < c.weight(), "%d bytes in memory, %d counted: %d and %d times the text", kept, c.weight(), kept/c.size(), c.weight()/c.size())
			t.Logf("%d bytes in memory, %d counted", kept, c.weight())
			runtime.KeepAlive(c)
		})
	}
}

// descriptor returns a FileDescriptorProto of a package with n messages, in base64.
func descriptor(n int, pkg string) string {
	file := &descriptorpb.FileDescriptorProto{Name: protobuf.String("a.proto"), Syntax: protobuf.String("proto3"), Package: protobuf.String(pkg)}
	for i := range n {
		file.MessageType = append(file.MessageType, &descriptorpb.DescriptorProto{Name: protobuf.String(fmt.Sprint("M", i))})
	}
	data, _ := protobuf.Marshal(file)
	return base64.StdEncoding.EncodeToString(data)
}

// heapInUse returns the size of all objects that are in use. The second run of the garbage collector frees the objects
// in each sync.Pool.
func heapInUse() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc) //nolint:gosec // less than 2^63
}

// In a registry, two references may refer to each other. Compiling them ends for each format: with a schema or with an
// error.
func TestReferencesThatReferToEachOther(t *testing.T) {
	for format, refs := range map[entity.Format][]reference{
		entity.Protobuf:   {{"a.proto", `syntax = "proto3"; import "b.proto"; message A { B b = 1; }`}, {"b.proto", `syntax = "proto3"; import "a.proto"; message B { A a = 1; }`}},
		entity.JSONSchema: {{"a.json", `{"$ref":"b.json"}`}, {"b.json", `{"$ref":"a.json"}`}},
		entity.Avro:       {{"A", `{"type":"record","name":"A","fields":[{"name":"b","type":"B"}]}`}, {"B", `{"type":"record","name":"B","fields":[{"name":"a","type":"A"}]}`}},
	} {
		text := map[entity.Format]string{entity.Protobuf: `import "a.proto"; message M { A a = 1; }`, entity.JSONSchema: refs[0].text, entity.Avro: `"A"`}[format]
		c := compile(1, "", source{format: format, text: text, refs: refs})
		if c.fault == nil {
			_, err := c.encode(nil, []byte(`{}`), nil, 1<<20)
			check.True(t, err != nil, "%s: a value fits a cycle", format)
		}
	}
}

func TestJSONSchemaReadsNoAddressAndNoFile(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("%s was requested", r.URL)
		_, _ = w.Write([]byte("true"))
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "schema.json")
	check.NoError(t, os.WriteFile(file, []byte("true"), 0o600))
	for _, ref := range []string{server.URL + "/s.json", "file://" + file, file, "//" + strings.TrimPrefix(server.URL, "http://") + "/s.json"} {
		for _, text := range []string{`{"$ref":%q}`, `{"$schema":%q}`, `{"$id":%q,"properties":{"a":{"$ref":"other.json"}}}`} {
			c := compile(1, "", source{format: entity.JSONSchema, text: fmt.Sprintf(text, ref)})
			check.True(t, c.fault != nil, "%s is accepted", fmt.Sprintf(text, ref))
		}
	}
}

func field(number protowire.Number, data []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), data)
}

func anyOf(value []byte) []byte {
	return append(field(1, []byte("x/M")), field(2, value)...)
}

// Small data may become very large when they are decoded. Decoding ends with an error, or with JSON that is not larger
// than the limit.
func TestHostileDataIsBounded(t *testing.T) {
	const limit = 1 << 20
	proto := `syntax = "proto3"; import "google/protobuf/any.proto"; message M { M m = 1; repeated M list = 2; google.protobuf.Any any = 3;
		repeated int32 numbers = 4; map<int32, M> by = 5; repeated M ` + strings.Repeat("n", 10_000) + ` = 6; }`
	deepAny := []byte{}
	for range 150 {
		deepAny = field(3, anyOf(deepAny))
	}
	wideAny := field(3, anyOf(append(field(4, make([]byte, 1<<19)), deepAny...)))
	for range 100 {
		wideAny = field(3, anyOf(wideAny))
	}
	groups := append([]byte{0}, []byte(strings.Repeat("\x7b", 1<<20))...)
	for _, tt := range []struct {
		name   string
		format entity.Format
		schema string
		data   []byte
	}{
		{"ZeroSizeItems", entity.Avro, `{"type":"array","items":"null"}`, []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01, 0}},
		{"EmptyRecords", entity.Avro, `{"type":"array","items":{"type":"record","name":"R","fields":[]}}`, []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01, 0}},
		{"NegativeCount", entity.Avro, `{"type":"array","items":"null"}`, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0}},
		{"LongVarint", entity.Avro, `"long"`, []byte(strings.Repeat("\xff", 20))},
		{"RecursiveWithoutData", entity.Avro, `{"type":"record","name":"A","fields":[{"name":"a","type":"A"}]}`, nil},
		{"LargeScale", entity.Avro, `{"type":"bytes","logicalType":"decimal","precision":65536,"scale":65536}`, []byte{2, 1}},
		{"EscapedBytes", entity.Avro, `"bytes"`, append([]byte{0x80, 0x80, 0x1e}, make([]byte, 0x1e<<13)...)},
		{"EmptyMessages", entity.Protobuf, proto, []byte("\x00" + strings.Repeat("\x12\x00", 1<<19))},
		{"PackedFlood", entity.Protobuf, proto, append([]byte{0}, field(4, make([]byte, 1<<20))...)},
		{"UnknownGroups", entity.Protobuf, proto, groups},
		{"DeepAny", entity.Protobuf, proto, append([]byte{0}, deepAny...)},
		{"AnyCopiedAtEachLevel", entity.Protobuf, proto, append([]byte{0}, wideAny...)},
		{"LongNamesInAny", entity.Protobuf, proto, append([]byte{0}, field(3, anyOf([]byte(strings.Repeat("\x12\x02\x32\x00", 20_000))))...)},
		{"RepeatedMapKeys", entity.Protobuf, proto, []byte("\x00" + strings.Repeat("\x2a\x00", 1<<18))},
		{"JSONNesting", entity.JSONSchema, `true`, []byte(strings.Repeat("[", 1<<20))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := compile(1, "", source{format: tt.format, text: tt.schema})
			check.NoError(t, c.fault)
			var text []byte
			var err error
			size := allocated(func() { text, err = c.decode(frame{rest: tt.data, data: tt.data}, limit) })
			check.True(t, size < 64*limit*raceMemory, "allocated %d bytes", size)
			check.True(t, err == nil && len(text) <= limit && json.Valid(text) || err != nil && text == nil, "%d bytes, %v", len(text), err)
		})
	}
}

// A short value may need very much work to be encoded with a hostile schema. Encoding ends with an error.
func TestHostileEncodingIsBounded(t *testing.T) {
	const limit = 1 << 20
	list := func(n int, item string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(item+",", n), ",") + "]"
	}
	double := `{"definitions":{` + each(60, ",", `"d%d":{"allOf":[{"$ref":"#/definitions/e%d"},{"$ref":"#/definitions/e%d"}]}`)
	for i := range 60 {
		double += fmt.Sprintf(`,"e%d":{"$ref":"#/definitions/d%d"}`, i+1, i+2)
	}
	double += `,"d61":{"type":"string"}},"$ref":"#/definitions/d1"}`
	item := `{"type":"record","name":"R","fields":[` + each(2000, ",", `{"name":"f%d","type":"null","default":null}`) + `]}`
	wide := `{"type":"record","name":"R","fields":[{"name":"f","type":{"type":"array","items":"null"},"default":` + list(20_000, "null") + `}]}`
	for _, tt := range []struct {
		name   string
		format entity.Format
		schema string
		text   string
	}{
		{"DefaultsDouble", entity.Avro, doubled(40), `{}`},
		{"DefaultsTryBranches", entity.Avro, `{"type":"record","name":"A","fields":[{"name":"n","default":{},"type":["A",{"type":"record","name":"B","fields":[{"name":"m","type":["A","B"],"default":{}}]}]}]}`, `{}`},
		{"DefaultsWithoutBytes", entity.Avro, `{"type":"array","items":` + item + `}`, list(100_000, `{}`)},
		{"DefaultsThatAreLong", entity.Avro, `{"type":"array","items":` + wide + `}`, list(100_000, `{}`)},
		{"WideUnion", entity.Avro, `{"type":"array","items":[` + each(10_000, ",", `{"type":"record","name":"R%d","fields":[]}`) + `]}`, list(100_000, `true`)},
		{"LargeScale", entity.Avro, `{"type":"bytes","logicalType":"decimal","precision":65536,"scale":65536}`, `"1"`},
		{
			"FieldThatDoesNotFitDeepBelow", entity.Protobuf, `syntax = "proto3"; message M { M m = 1; string s = 2; int32 n = 3; }`,
			nested(150, `{"m":`, `{"s":"`+strings.Repeat("x", 1<<19)+`","n":true}`, "}"),
		},
		{"ReferencesDouble", entity.JSONSchema, double, `1`},
		{
			"ItemsDouble", entity.JSONSchema, `{"definitions":{"n":{"type":"array","items":{"$ref":"#/definitions/n"},"contains":{"$ref":"#/definitions/n"}}},"not":{"$ref":"#/definitions/n"}}`,
			nested(100, "[", "1", "]"),
		},
		{"Pattern", entity.JSONSchema, `{"pattern":"(x+x+)+y.{900}z"}`, `"` + strings.Repeat("x", 1<<20) + `"`},
		{"LongNumbers", entity.JSONSchema, `{"items":{"multipleOf":3}}`, list(50_000, `1e999999`)},
		{"LargeEnum", entity.JSONSchema, `{"items":{"enum":[` + each(100_000, ",", "%d") + `]}}`, list(100_000, "0")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := compile(1, "", source{format: tt.format, text: tt.schema})
			check.NoError(t, c.fault)
			var err error
			size := allocated(func() { _, err = c.encode([]int{0}, []byte(tt.text), nil, limit) })
			var invalid *codec.Error
			var over *codec.LimitError
			check.True(t, errors.As(err, &invalid) || errors.As(err, &over), "got %v", err)
			check.True(t, size < 1<<30, "allocated %d bytes", size)
		})
	}
}

// If a JSON Schema is too large to be used for checks, values with this schema are shown without a check, and cannot be
// encoded.
func TestLargeJSONSchemaShowsItsValues(t *testing.T) {
	t.Parallel()
	c := compile(1, "", source{format: entity.JSONSchema, text: `{"anyOf":[` + each(20_000, ",", `{"const":%d}`) + `]}`})
	check.NoError(t, c.fault)
	check.Equal(t, string(check.Must(c.decode(frame{data: []byte(`{"a":1}`)}, 99))(t)), `{"a":1}`, "JSON")
	check.Says(t, check.Err(c.encode(nil, []byte(`{"a":1}`), nil, 99)), "cannot be checked", "error")
}

// fuzz compiles any schema with any reference, decodes any data with the result, and encodes the decoded JSON and any
// other JSON.
func fuzz(f *testing.F, format entity.Format, seeds ...[3]string) {
	f.Helper()
	for _, s := range seeds {
		f.Add(s[0], s[1], s[2], []byte("\x02\x04ab"))
	}
	f.Fuzz(func(t *testing.T, text, ref, value string, data []byte) {
		const limit = 1 << 16
		indexes := []int{0}
		size := allocated(func() {
			c := compile(1, "", source{format: format, text: text, refs: []reference{{"ref", ref}}})
			if c.fault != nil {
				return
			}
			original := &proto.Original{Schema: c.proto, Indexes: indexes, Data: data}
			if decoded, err := c.decode(frame{rest: data, data: data}, limit); err == nil {
				if len(decoded) > limit || !json.Valid(decoded) {
					t.Fatalf("%d bytes that are not JSON within the limit", len(decoded))
				}
				_, _ = c.encode(indexes, decoded, original, limit)
			}
			if encoded, err := c.encode(indexes, []byte(value), original, limit); err == nil && len(encoded) > limit && format != entity.JSONSchema {
				t.Fatalf("encoded %d bytes", len(encoded))
			}
		})
		if most := 256<<20 + 2000*(len(text)+len(ref)+len(value)+len(data)); size > most {
			t.Fatalf("allocated %d bytes", size)
		}
	})
}

func FuzzAvro(f *testing.F) {
	fuzz(f, entity.Avro,
		[3]string{oldAvro, newAvro, `{"status":"NEW"}`},
		[3]string{`{"type":"array","items":["null","ref",{"type":"map","values":"bytes"}]}`, `{"type":"record","name":"ref","fields":[{"name":"r","type":["null","ref"],"default":null}]}`, `[{"ref":{}}]`},
		[3]string{`{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}`, `{"type":"fixed","name":"f","size":16,"logicalType":"uuid"}`, `"1.5"`},
		[3]string{doubled(3), `["int",{"type":"long","logicalType":"timestamp-nanos"},"double"]`, `{}`})
}

func FuzzProtobuf(f *testing.F) {
	fuzz(f, entity.Protobuf,
		[3]string{protoOld, protoNew, `{"id":"x"}`},
		[3]string{
			`syntax = "proto3"; import "ref"; import "google/protobuf/any.proto"; message M { R r = 1; google.protobuf.Any any = 2; map<string, M> by = 3; repeated int32 n = 4; }`,
			`syntax = "proto3"; message R { oneof x { string s = 1; bytes b = 2; } enum E { A = 0; } E e = 3; }`, `{"r":{"s":"x"},"by":{"a":{"n":[1]}}}`,
		},
		[3]string{`syntax = "proto2"; message M { optional group G = 1 { required int32 n = 1; } extensions 100 to max; } extend M { optional M m = 100; }`, ``, `{"[m]":{"g":{"n":1}}}`})
}

func FuzzJSONSchema(f *testing.F) {
	fuzz(f, entity.JSONSchema,
		[3]string{`{"properties":{"n":{"$ref":"ref"},"s":{"pattern":"^a+$","format":"regex"}},"required":["n"]}`, `{"type":"integer","multipleOf":0.5,"enum":[1,2]}`, `{"n":1,"s":"aa"}`},
		[3]string{`{"$schema":"https://json-schema.org/draft/2020-12/schema","$dynamicRef":"#n","$dynamicAnchor":"n","unevaluatedProperties":false,"prefixItems":[{"$ref":"ref#/a"}],"not":{"contains":false}}`, `{"a":true}`, `[1,{"a":[]}]`},
		[3]string{`{"definitions":{"n":{"items":{"$ref":"#/definitions/n"},"uniqueItems":true}},"allOf":[{"$ref":"#/definitions/n"}],"if":{"minItems":1},"then":{"maxItems":2}}`, ``, `[[1,1e9],[2]]`})
}
