package proto

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/schema/internal/codec"
)

const (
	limit = 1 << 20

	orders = `syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "common/money.proto";
import "confluent/meta.proto";
message Unused {}
message Order {
  string id = 1;
  enum Status { UNKNOWN = 0; NEW = 1; PAID = 2; }
  Status status = 2;
  repeated Line lines = 3;
  map<string, Line> by_sku = 4;
  google.protobuf.Timestamp placed_at = 5;
  common.Money total = 6;
  int64 big = 7;
  oneof payer { string person = 8; int32 company = 9; }
  bytes raw = 10;
  Order parent = 11;
  message Line { string sku = 1; int32 count = 2 [(confluent.field_meta).doc = "pieces"]; }
}
`
	money = `syntax = "proto3"; package common; message Money { int64 units = 1; string currency = 2; }`
)

func parse(t testing.TB) *Schema {
	t.Helper()
	return check.Must(Parse(orders, map[string]string{"common/money.proto": money}))(t)
}

var order = []int{1}

const canonical = `{"id":"1","status":"PAID","lines":[{"sku":"a","count":1},{"sku":"b"}],"bySku":{"a":{"count":3}},` +
	`"placedAt":"2026-11-23T10:00:00.500Z","total":{"units":"9007199254740993","currency":"EUR"},"big":"-1","company":0,"raw":"AP8="}`

func TestEncodeAndDecode(t *testing.T) {
	t.Parallel()
	s := parse(t)
	check.Equal(t, s.Name(order), "shop.Order", "name")
	check.Equal(t, s.Name([]int{1, 1}), "shop.Order.Line", "name of a nested message")
	check.Equal(t, fmt.Sprint(s.Find("shop.Order.Line")), "[1 1]", "indexes")
	data := check.Must(s.Encode(order, []byte(canonical), nil, limit))(t)
	check.Equal(t, string(check.Must(s.Decode(order, data, limit))(t)), canonical, "JSON")
}

func TestSchemaMayBeADescriptor(t *testing.T) {
	t.Parallel()
	file := protodesc.ToFileDescriptorProto(parse(t).file)
	raw := check.Must(proto.Marshal(file))(t)
	s := check.Must(Parse(base64.StdEncoding.EncodeToString(raw), map[string]string{"common/money.proto": money}))(t)
	check.Equal(t, s.Name(order), "shop.Order", "name")
}

func TestIndexes(t *testing.T) {
	t.Parallel()
	for _, want := range [][]int{{0}, {1}, {0, 0}, {1, 2, 3}, {300}} {
		data := AppendIndexes(nil, want)
		got, size, err := Indexes(append(data, 1, 2))
		check.True(t, err == nil && size == len(data) && fmt.Sprint(got) == fmt.Sprint(want), "got %v, %d, %v, want %v", got, size, err, want)
	}
	check.Equal(t, AppendIndexes(nil, []int{0}), []byte{0}, "the first message")
	for _, data := range [][]byte{nil, {2}, {1}, {0xff}, {0xfe, 0xff, 0xff, 0xff, 0x0f}} {
		_, _, err := Indexes(data)
		check.True(t, err != nil, "%x is accepted", data)
	}
}

// withUnknown appends a field that the schema does not know.
func withUnknown(message []byte, text string) []byte {
	return protowire.AppendString(protowire.AppendTag(bytes.Clone(message), 99, protowire.BytesType), text)
}

func TestUnknownFieldsSurvive(t *testing.T) {
	t.Parallel()
	s := parse(t)
	line := func(sku, unknown string) []byte {
		return withUnknown(protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), sku), unknown)
	}
	field := func(dst []byte, number protowire.Number, message []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(dst, number, protowire.BytesType), message)
	}
	entry := field(protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "k"), 2, line("m", "of a map"))
	original := field(field(field(field(nil, 3, line("a", "of a")), 3, line("b", "of b")), 4, entry), 6, withUnknown(nil, "of total"))
	original = withUnknown(original, "of the order")

	for _, tt := range []struct {
		name, text string
		kept, gone []string
	}{
		{"SameList", `{"lines":[{"sku":"A"},{"sku":"b"}],"bySku":{"k":{"sku":"M"}},"total":{"units":"1"}}`, []string{"of a", "of b", "of a map", "of total", "of the order"}, nil},
		{"ShorterList", `{"lines":[{"sku":"b"}],"bySku":{},"total":{}}`, []string{"of b", "of total", "of the order"}, []string{"of a"}},
		{"LongerList", `{"lines":[{"sku":"new"},{"sku":"a"},{"sku":"b"}]}`, []string{"of a", "of b", "of the order"}, []string{"of total"}},
	} {
		data := check.Must(s.Encode(order, []byte(tt.text), &Original{Schema: s, Indexes: order, Data: original}, limit))(t)
		for _, text := range tt.kept {
			check.True(t, bytes.Contains(data, []byte(text)), "%s: %q is lost", tt.name, text)
		}
		for _, text := range tt.gone {
			check.True(t, !bytes.Contains(data, []byte(text)), "%s: %q is kept, although its message is gone", tt.name, text)
		}
	}
}

// Fields that the message's own schema does not know are kept when the message is encoded with a later schema that
// knows them. A known field that the later schema no longer has is lost. When the JSON sets a field, its value replaces
// the unknown field.
func TestUnknownFieldsSurviveInALaterSchema(t *testing.T) {
	t.Parallel()
	const written = `{"id":"1","note":"n","lines":[{"sku":"a","pieces":2},{"sku":"b","pieces":3}],"bySku":{"k":{"pieces":4}},` +
		`"total":{"units":"5"},"marks":[1,2],"phone":"p"}`
	line := "message Line { string sku = 1; int32 pieces = 9; }"
	later := check.Must(Parse(`syntax = "proto3"; message Total { int64 units = 9; } message Order { string id = 1; repeated Line lines = 2;
		map<string, Line> by_sku = 3; Total total = 4; `+line+` string note = 9; repeated int32 marks = 10; oneof contact { string mail = 11; string phone = 12; } }`, nil))(t)
	own := check.Must(Parse(`syntax = "proto3"; message Order { message Line { string sku = 1; } string id = 1; repeated Line lines = 2;
		map<string, Line> by_sku = 3; Total total = 4; string dropped = 13; } message Total {}`, nil))(t)
	data := check.Must(later.Encode([]int{1}, []byte(written), nil, limit))(t)
	data = protowire.AppendString(protowire.AppendTag(data, 13, protowire.BytesType), "dropped")
	original := &Original{Schema: own, Indexes: []int{0}, Data: data}
	for text, want := range map[string]string{
		`{"id":"2","lines":[{"sku":"A"},{"sku":"b"}],"bySku":{"k":{}},"total":{}}`: `{"id":"2","lines":[{"sku":"A","pieces":2},{"sku":"b","pieces":3}],` +
			`"bySku":{"k":{"pieces":4}},"total":{"units":"5"},"note":"n","marks":[1,2],"phone":"p"}`,
		`{"lines":[{"sku":"b"}],"note":"new","marks":[3],"mail":"m"}`: `{"lines":[{"sku":"b","pieces":3}],"note":"new","marks":[3],"mail":"m"}`,
	} {
		encoded := check.Must(later.Encode([]int{1}, []byte(text), original, limit))(t)
		check.Equal(t, string(check.Must(later.Decode([]int{1}, encoded, limit))(t)), want, text)
		check.True(t, !bytes.Contains(encoded, []byte("dropped")), "%s keeps a dropped field", text)
	}
}

func TestEncodeNamesTheFieldThatDoesNotFit(t *testing.T) {
	t.Parallel()
	s := parse(t)
	for text, want := range map[string]string{
		`{"status":"PAYED"}`:                  `$.status: must be one of the enum's values: UNKNOWN, NEW, PAID`,
		`{"lines":[{},{"count":"secret"}]}`:   `$.lines[1].count: must be a value of type int32`,
		`{"lines":{}}`:                        `$.lines: must be a list`,
		`{"bySku":{"secret":{"count":true}}}`: `$.bySku[*].count: must be a value of type int32`,
		`{"placedAt":"secret"}`:               `$.placedAt: must be google.protobuf.Timestamp in its JSON form`,
		`{"parent":{"parent":{"raw":"%%"}}}`:  `$.parent.parent.raw: must be bytes in base64`,
		`{"extra":1}`:                         `$.extra: is not in the schema`,
		`{"person":"a","company":1}`:          `$: does not fit shop.Order`,
		`[]`:                                  `$: must be shop.Order in its JSON form`,
	} {
		_, err := s.Encode(order, []byte(text), nil, limit)
		check.Equal(t, err.Error(), want, text)
	}
}

func TestHostileDataIsBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 30_000)
	s := check.Must(Parse(`syntax = "proto3"; message M { repeated M `+long+` = 1; M m = 2; enum E { `+strings.Repeat("V", 30_000)+` = 0; } repeated E e = 3; repeated M r = 4; }`, nil))(t)
	var deep []byte
	for range 2000 {
		deep = protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), deep)
	}
	nested := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), nil)
	var names []byte
	for range 20_000 {
		names = protowire.AppendBytes(protowire.AppendTag(names, 4, protowire.BytesType), nested)
	}
	for name, data := range map[string][]byte{
		"a name of 30,000 letters":   names,
		"a symbol of 30,000 letters": protowire.AppendBytes(protowire.AppendTag(nil, 3, protowire.BytesType), make([]byte, 1<<20)),
		"deep nesting":               deep,
		"a declared length of 2 GB":  {0x12, 0xff, 0xff, 0xff, 0xff, 0x07},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := s.Decode([]int{0}, data, limit)
		runtime.ReadMemStats(&after)
		var over *codec.LimitError
		var invalid *codec.Error
		check.True(t, errors.As(err, &over) || errors.As(err, &invalid), "%s: got %v", name, err)
		check.True(t, after.TotalAlloc-before.TotalAlloc < 128*limit, "%s: allocated %d bytes", name, after.TotalAlloc-before.TotalAlloc)
	}
}

func TestSchemaThatIsNotValid(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "message", `syntax = "proto3"; import "missing.proto"; message M {}`, `syntax = "proto3"; message M { M m = 1; M m = 2; }`} {
		s, err := Parse(text, nil)
		check.True(t, err != nil || s.Name([]int{0}) == "", "%q is accepted", text)
	}
}

// FuzzDecode checks that decoding any data ends with JSON or an error, and that encoding the JSON gives a message with
// the same JSON.
func FuzzDecode(f *testing.F) {
	s := parse(f)
	data, err := s.Encode(order, []byte(canonical), nil, limit)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		text, err := s.Decode(order, data, 1<<16)
		if err != nil {
			return
		}
		encoded, err := s.Encode(order, text, &Original{Schema: s, Indexes: order, Data: data}, limit)
		if err != nil {
			t.Fatalf("%s cannot be encoded: %v", text, err)
		}
		if again, err := s.Decode(order, encoded, limit); err != nil || !bytes.Equal(again, text) {
			t.Fatalf("%s becomes %s, %v", text, again, err)
		}
	})
}
