package avro

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/twmb/avro"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/schema/internal/codec"
)

const limit = 1 << 20

func parse(t *testing.T, schema string, references ...string) *Schema {
	t.Helper()
	return check.Must(Parse(schema, references))(t)
}

func TestDecodeAndEncode(t *testing.T) {
	t.Parallel()
	stamp := time.Date(2026, 11, 23, 10, 0, 0, 123456789, time.UTC)
	tests := []struct {
		name, schema string
		value        any
		want         string
	}{
		{"Null", `"null"`, nil, `null`},
		{"Boolean", `"boolean"`, true, `true`},
		{"SmallestLong", `"long"`, int64(math.MinInt64), `-9223372036854775808`},
		{"Int", `"int"`, int32(-5), `-5`},
		{"Double", `"double"`, 0.1, `0.1`},
		{"LargeDouble", `"double"`, 1e300, `1e+300`},
		{"NotANumber", `"double"`, math.NaN(), `"NaN"`},
		{"NegativeInfinity", `"float"`, float32(math.Inf(-1)), `"-Infinity"`},
		{"NegativeZero", `"double"`, math.Copysign(0, -1), `-0`},
		{"Text", `"string"`, "a\"\\\n\x01é\u2028", `"a\"\\\n\u0001é` + "\u2028" + `"`},
		{"Bytes", `"bytes"`, []byte{0, 'a', '"', 0xff}, `"\u0000a\"\u00ff"`},
		{"Fixed", `{"type":"fixed","name":"F","size":2}`, [2]byte{1, 0xfe}, `"\u0001\u00fe"`},
		{"Enum", `{"type":"enum","name":"E","symbols":["A","B"]}`, "B", `"B"`},
		{"Array", `{"type":"array","items":"int"}`, []int32{1, 2}, `[1,2]`},
		{"EmptyArray", `{"type":"array","items":"int"}`, []int32{}, `[]`},
		{"Map", `{"type":"map","values":"int"}`, map[string]int32{"k": 1}, `{"k":1}`},
		{"Decimal", `{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}`, big.NewRat(-1205, 100), `"-12.05"`},
		{"SmallDecimal", `{"type":"bytes","logicalType":"decimal","precision":9,"scale":4}`, big.NewRat(1, 100), `"0.0100"`},
		{"FixedDecimal", `{"type":"fixed","name":"D","size":8,"logicalType":"decimal","precision":9,"scale":0}`, big.NewRat(-128, 1), `"-128"`},
		{"PositiveFixedDecimal", `{"type":"fixed","name":"D","size":8,"logicalType":"decimal","precision":9,"scale":0}`, big.NewRat(200, 1), `"200"`},
		{"UUID", `{"type":"fixed","name":"U","size":16,"logicalType":"uuid"}`, "123e4567-e89b-12d3-a456-426614174000", `"123e4567-e89b-12d3-a456-426614174000"`},
		{"Date", `{"type":"int","logicalType":"date"}`, int32(-1), `"1969-12-31"`},
		{"TimeMillis", `{"type":"int","logicalType":"time-millis"}`, int32(3_723_004), `"01:02:03.004"`},
		{"TimeMicros", `{"type":"long","logicalType":"time-micros"}`, int64(86_399_999_999), `"23:59:59.999999"`},
		{"TimestampMillis", `{"type":"long","logicalType":"timestamp-millis"}`, stamp.UnixMilli(), `"2026-11-23T10:00:00.123Z"`},
		{"TimestampMicros", `{"type":"long","logicalType":"timestamp-micros"}`, stamp.UnixMicro(), `"2026-11-23T10:00:00.123456Z"`},
		{"TimestampNanos", `{"type":"long","logicalType":"timestamp-nanos"}`, stamp.UnixNano(), `"2026-11-23T10:00:00.123456789Z"`},
		{"TimestampBefore1970", `{"type":"long","logicalType":"timestamp-millis"}`, int64(-1), `"1969-12-31T23:59:59.999Z"`},
		{"TimestampOutOfRange", `{"type":"long","logicalType":"timestamp-millis"}`, int64(math.MaxInt64), `9223372036854775807`},
		{"LocalTimestamp", `{"type":"long","logicalType":"local-timestamp-millis"}`, stamp.UnixMilli(), `"2026-11-23T10:00:00.123"`},
		{"OptionalText", `["null","string"]`, "x", `"x"`},
		{"OptionalNull", `["null","string"]`, nil, `null`},
		{"TextOrNumber", `["null","string","double"]`, 2.5, `2.5`},
		{"TextOrNotANumber", `["null","string","double"]`, map[string]any{"double": math.NaN()}, `{"double":"NaN"}`},
		{"TwoNumbers", `["int","long"]`, map[string]any{"long": int64(5)}, `{"long":5}`},
		{"TwoTexts", `["null","string","bytes"]`, map[string]any{"bytes": []byte("b")}, `{"bytes":"b"}`},
		{"TwoRecords", `[{"type":"record","name":"n.A","fields":[]},{"type":"record","name":"n.B","fields":[]}]`, map[string]any{"n.B": map[string]any{}}, `{"n.B":{}}`},
		{
			"FieldNamedLikeABranch", `["null","string",{"type":"record","name":"R","fields":[{"name":"string","type":"string"}]}]`,
			map[string]any{"R": map[string]any{"string": "v"}},
			`{"R":{"string":"v"}}`,
		},
		{
			"NamesInANamespace", `{"type":"record","name":"O","namespace":"n","fields":[{"name":"a","type":{"type":"record","name":"L","fields":[{"name":"x","type":"int"}]}},
				{"name":"b","type":["null","L"]},{"name":"c","type":{"type":"map","values":"n.L"}}]}`,
			map[string]any{"a": map[string]any{"x": 1}, "b": map[string]any{"x": 2}, "c": map[string]any{}},
			`{"a":{"x":1},"b":{"x":2},"c":{}}`,
		},
		{
			"Recursion", `{"type":"record","name":"L","fields":[{"name":"n","type":"int"},{"name":"next","type":["null","L"]}]}`,
			map[string]any{"n": 1, "next": map[string]any{"n": 2, "next": nil}},
			`{"n":1,"next":{"n":2,"next":null}}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			data := check.Must(avro.MustParse(tt.schema).Encode(tt.value))(t)
			s := parse(t, tt.schema)
			got := check.Must(s.Decode(data, limit))(t)
			check.Equal(t, string(got), tt.want, "JSON")
			check.True(t, json.Valid(got), "%s is not JSON", got)
			again := check.Must(s.Encode(got, limit))(t)
			check.True(t, bytes.Equal(again, data), "encoded %x, want %x", again, data)
		})
	}
}

const orderSchema = `{"type":"record","name":"shop.Order","fields":[
	{"name":"id","type":"string"},
	{"name":"status","type":{"type":"enum","name":"Status","symbols":["NEW","PAID"]}},
	{"name":"lines","type":{"type":"array","items":{"type":"record","name":"Line","fields":[{"name":"n","type":"int"}]}},"default":[]},
	{"name":"total","type":["null",{"type":"bytes","logicalType":"decimal","precision":4,"scale":2}],"default":null},
	{"name":"either","type":["int","string"],"default":7}]}`

func TestEncodeNamesTheFieldThatDoesNotFit(t *testing.T) {
	t.Parallel()
	s := parse(t, orderSchema)
	check.Equal(t, s.Name(), "shop.Order", "name")
	for text, want := range map[string]string{
		`{"id":"1","status":"PAYED"}`:                           `$.status: must be one of the enum's symbols: NEW, PAID`,
		`{"status":"NEW"}`:                                      `$.id: is missing, and the schema has no default for it`,
		`{"id":1,"status":"NEW"}`:                               `$.id: must be a string`,
		`{"id":"1","status":"NEW","lines":[{"n":1},{"n":2.5}]}`: `$.lines[1].n: must be a whole number of 32 bits`,
		`{"id":"1","status":"NEW","total":"123.45"}`:            `$.total: has more than the 4 digits that the schema allows`,
		`{"id":"1","status":"NEW","total":"1.234"}`:             `$.total: has more than the 2 digits after the point that the schema allows`,
		`{"id":"1","status":"NEW","either":true}`:               `$.either: must be one of int, string`,
		`{"id":"1","status":"NEW","extra":1}`:                   `$.extra: is not in the schema`,
		`[`:                                                     `$: is not JSON`,
		`{"id":"1","status":"NEW","lines":[{"n":99999999999}]}`: `$.lines[0].n: must be a whole number of 32 bits`,
	} {
		_, err := s.Encode([]byte(text), limit)
		check.Equal(t, err.Error(), want, text)
	}
	data := check.Must(s.Encode([]byte(`{"status":"NEW","id":"1"}`), limit))(t)
	check.Equal(t, string(check.Must(s.Decode(data, limit))(t)), `{"id":"1","status":"NEW","lines":[],"total":null,"either":7}`, "with defaults")
}

// The default of a field is written in Avro's own JSON form. In that form, logical types are not written as text and
// values of unions do not name their branch.
func TestDefaultsOfLogicalTypes(t *testing.T) {
	t.Parallel()
	const fee = `{"name":"fee","type":{"type":"bytes","logicalType":"decimal","precision":4,"scale":2},"default":"\u0000\u0080"}`
	s := parse(t, `{"type":"record","name":"A","fields":[`+fee+`,
		{"name":"day","type":{"type":"int","logicalType":"date"},"default":19782},
		{"name":"fixed","type":{"type":"fixed","name":"D","size":2,"logicalType":"decimal","precision":4,"scale":2},"default":"\u00ff\u00ff"},
		{"name":"id","type":{"type":"fixed","name":"U","size":16,"logicalType":"uuid"},"default":"0123456789abcdef"},
		{"name":"inner","type":{"type":"record","name":"B","fields":[`+fee+`,{"name":"either","type":["int","long"]}]},"default":{"either":1}},
		{"name":"list","type":{"type":"array","items":["D","string"]},"default":["\u0000\u0001"]}]}`)
	data := check.Must(s.Encode([]byte(`{}`), limit))(t)
	check.Equal(t, string(check.Must(s.Decode(data, limit))(t)), `{"fee":"1.28","day":"2024-02-29","fixed":"-0.01",`+
		`"id":"30313233-3435-3637-3839-616263646566","inner":{"fee":"1.28","either":{"int":1}},"list":[{"D":"0.01"}]}`, "defaults")
}

func TestReferencesAreFound(t *testing.T) {
	t.Parallel()
	s := parse(t, `{"type":"record","name":"a.Order","fields":[{"name":"item","type":"b.Item"},{"name":"again","type":"b.Item"}]}`,
		`{"type":"record","name":"b.Item","fields":[{"name":"sku","type":"string"}]}`)
	const text = `{"item":{"sku":"x"},"again":{"sku":"y"}}`
	data := check.Must(s.Encode([]byte(text), limit))(t)
	check.Equal(t, string(check.Must(s.Decode(data, limit))(t)), text, "JSON")
}

// The default has the type of no branch of the nested unions. Trying all combinations of branches would need 2^60
// steps, so encoding ends with an error before.
func TestHostileDefaultIsBounded(t *testing.T) {
	t.Parallel()
	record := func(name, union string) string {
		return `{"type":"record","name":"` + name + `","fields":[{"name":"n","type":` + union + `}]}`
	}
	fallback := strings.Repeat(`{"n":`, 60) + `"x"` + strings.Repeat(`}`, 60)
	s := parse(t, record("Root", `["null",`+record("A", `["null","A",`+record("B", `["null","A","B"]`)+`]`)+`],"default":`+fallback))
	_, err := s.Encode([]byte(`{}`), limit)
	check.Says(t, err, "has a default that does not fit its union", "error")
}

// Without limits, decoding small data with some schemas would use far more memory than the data and the schema have.
// Decoding must end with an error and allocate less than 32 times the limit.
func TestHostileDataIsBounded(t *testing.T) {
	t.Parallel()
	var many strings.Builder
	for i := range 1000 {
		if i > 0 {
			many.WriteByte(',')
		}
		many.WriteString(`{"name":"f` + strings.Repeat("x", i%50) + string(rune('a'+i%26)) + `_` + strings.Repeat("y", i/26) + `","type":"null"}`)
	}
	tests := []struct {
		name, schema string
		data         []byte
		tooLarge     bool
	}{
		{"ABillionNulls", `{"type":"array","items":"null"}`, []byte{0xfe, 0xff, 0xff, 0xff, 0x0f, 0}, true},
		{"WideRecords", `{"type":"array","items":{"type":"record","name":"R","fields":[` + many.String() + `]}}`, []byte{0xfe, 0xff, 0xff, 0xff, 0x0f, 0}, true},
		{"LongSymbol", `{"type":"array","items":{"type":"enum","name":"E","symbols":["` + strings.Repeat("S", 60_000) + `"]}}`, append([]byte{0x80, 0x80, 0x1e}, make([]byte, 0x1e<<13)...), true},
		{"DeclaredTwoGigabytes", `"bytes"`, []byte{0xfe, 0xff, 0xff, 0xff, 0x0f, 1}, false},
		{"NegativeLength", `"string"`, []byte{1}, false},
		{"EndlessRecursion", `{"type":"record","name":"L","fields":[{"name":"n","type":["null","L"]}]}`, bytes.Repeat([]byte{2}, 100_000), true},
		{"ATrillionEmptyRecords", `{"type":"array","items":{"type":"record","name":"R","fields":[]}}`, []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x40, 0}, true},
		{"WideRecordsOfOneByte", `{"type":"array","items":{"type":"record","name":"R","fields":[{"name":"n","type":["null","int"]},` + many.String() + `]}}`, append([]byte{0x80, 0x80, 0x1e}, make([]byte, 0x1e<<13+1)...), true},
		{"LongDecimal", `{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}`, append([]byte{0x80, 0x80, 0x10}, make([]byte, 1<<17)...), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := parse(t, tt.schema)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := s.Decode(tt.data, limit)
			runtime.ReadMemStats(&after)
			var over *codec.LimitError
			check.True(t, err != nil && errors.As(err, &over) == tt.tooLarge, "got %v", err)
			check.True(t, after.TotalAlloc-before.TotalAlloc < 32*limit, "allocated %d bytes", after.TotalAlloc-before.TotalAlloc)
		})
	}
}

func TestDecodesAtMost256KiB(t *testing.T) {
	t.Parallel()
	s := parse(t, `"string"`)
	for _, size := range []int{256 << 10, 256<<10 + 1} {
		data := binary.AppendVarint(nil, int64(size-3))
		data = append(data, bytes.Repeat([]byte("x"), size-len(data))...)
		_, err := s.Decode(data, limit)
		var over *codec.LimitError
		check.True(t, errors.As(err, &over) == (size > 256<<10) && (err == nil || over.Kind == codec.TooLarge), "%d bytes: %v", size, err)
	}
}

// In an optional map, Decode does not name the branch, so a key "map" is a key.
func TestKeyThatIsCalledLikeItsBranch(t *testing.T) {
	t.Parallel()
	for schema, text := range map[string]string{
		`["null",{"type":"map","values":"int"}]`:                                   `{"map":5}`,
		`["null",{"type":"map","values":{"type":"map","values":"int"}}]`:           `{"map":{"k":5}}`,
		`["null","string",{"type":"map","values":{"type":"array","items":"int"}}]`: `{"map":{"map":[5]}}`,
	} {
		s := parse(t, schema)
		data, err := s.Encode([]byte(text), limit)
		check.NoError(t, err)
		check.Equal(t, string(check.Must(s.Decode(data, limit))(t)), text, schema)
	}
}

func TestSchemaThatIsNotValid(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{`, `"x"`, `{"type":"array"}`, `{"type":"enum","name":"E","symbols":["A","A"]}`} {
		check.True(t, check.Err(Parse(text, nil)) != nil, "%s is accepted", text)
	}
}

// FuzzDecode checks that decoding any data ends with an error or with JSON of at most twice the limit, and that data
// encoded from this JSON, if it can be encoded, can be decoded.
func FuzzDecode(f *testing.F) {
	schemas := []string{
		orderSchema, `["null","string","bytes",{"type":"map","values":["int","double"]}]`,
		`{"type":"array","items":{"type":"record","name":"R","fields":[{"name":"t","type":{"type":"long","logicalType":"timestamp-nanos"}},{"name":"f","type":"float"},{"name":"r","type":["null","R"]}]}}`,
		`{"type":"map","values":{"type":"fixed","name":"U","size":16,"logicalType":"uuid"}}`,
	}
	f.Add(0, []byte("\x021\x00\x00\x00\x00\x0e"))
	f.Fuzz(func(t *testing.T, which int, data []byte) {
		s, err := Parse(schemas[(which%len(schemas)+len(schemas))%len(schemas)], nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := s.Decode(data, 1<<16)
		if err != nil {
			return
		}
		if !json.Valid(text) || len(text) > 1<<17 {
			t.Fatalf("%x gives %d bytes that are not JSON within the limit", data, len(text))
		}
		encoded, err := s.Encode(text, 1<<20)
		if err != nil {
			return // in JSON, two different keys that are not UTF-8 may become equal keys, which Encode rejects
		}
		again, err := s.Decode(encoded, 1<<20)
		if err != nil {
			t.Fatalf("%x is encoded as %x, which is not valid: %v", data, encoded, err)
		}
		_ = again
	})
}
