package official

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/integration/registry"
)

// sample is a value in one format, with its schema, and the JSON that the decoder must return for it.
type sample struct {
	name       string
	format     string
	schema     string
	references []Reference
	message    string
	value      string
	want       string
}

const (
	moneyAvro = `{"type":"record","name":"Money","namespace":"shop","fields":[{"name":"cents","type":"long"}]}`
	orderAvro = `{"type":"record","name":"Order","namespace":"shop","fields":[
		{"name":"id","type":"long"},
		{"name":"raw","type":"bytes"},
		{"name":"price","type":{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}},
		{"name":"at","type":{"type":"long","logicalType":"timestamp-millis"}},
		{"name":"seen","type":{"type":"long","logicalType":"timestamp-micros"}},
		{"name":"local","type":{"type":"long","logicalType":"local-timestamp-micros"}},
		{"name":"day","type":{"type":"int","logicalType":"date"}},
		{"name":"time","type":{"type":"int","logicalType":"time-millis"}},
		{"name":"code","type":{"type":"string","logicalType":"uuid"}},
		{"name":"ratio","type":"double"},
		{"name":"shares","type":{"type":"array","items":"float"}},
		{"name":"total","type":"shop.Money"},
		{"name":"paid","type":["null","shop.Money",{"type":"record","name":"Card","fields":[{"name":"cents","type":"long"}]}]},
		{"name":"until","type":["null",{"type":"long","logicalType":"timestamp-millis"}]},
		{"name":"state","type":{"type":"enum","name":"State","symbols":["NEW","OLD"]}},
		{"name":"tags","type":{"type":"map","values":{"type":"array","items":["int","string"]}}}]}`
	orderValue = `{"id":9007199254740993,"raw":{"$bytes":"AP9h"},"price":{"$decimal":"1.20"},
		"at":{"$datetime":"2026-11-23T10:00:00.120Z"},"seen":{"$datetime":"2026-11-23T11:00:00.123450+01:00"},
		"local":{"$datetime":"2026-11-23T10:00:00"},"day":{"$date":"2026-11-23"},"time":{"$time":"10:00:00.500"},
		"code":"5f0c8a52-30a4-4a45-b94c-3a6e5f2d0c11","ratio":{"$float":"NaN"},"shares":[0.1,3.4028235e38,1e-45],"total":{"cents":5},
		"paid":{"$tuple":["shop.Card",{"cents":7}]},"until":{"$datetime":"1969-12-31T23:59:59.999Z"},
		"state":"OLD","tags":{"a":[1,"x"]}}`
	orderWant = `{"id":9007199254740993,"raw":"\u0000ÿa","price":"1.20","at":"2026-11-23T10:00:00.120Z",
		"seen":"2026-11-23T10:00:00.123450Z","local":"2026-11-23T10:00:00.000000","day":"2026-11-23","time":"10:00:00.500",
		"code":"5f0c8a52-30a4-4a45-b94c-3a6e5f2d0c11","ratio":"NaN","shares":[0.1,3.4028235e+38,1e-45],"total":{"cents":5},"paid":{"cents":7},
		"until":"1969-12-31T23:59:59.999Z","state":"OLD","tags":{"a":[1,"x"]}}`

	moneyProto = "syntax = \"proto3\";\npackage shop;\nmessage Money { int64 cents = 1; }\n"
	orderProto = `syntax = "proto3";
package shop;
import "shop/money.proto";
import "google/protobuf/timestamp.proto";
import "confluent/meta.proto";
import "confluent/types/decimal.proto";
message Zebra {}
message Order {
  message Line { string item = 1; Money price = 2 [(confluent.field_meta).doc = "gross"]; }
  message Empty {}
  int64 id = 1;
  repeated Line lines = 2;
  google.protobuf.Timestamp at = 3;
  bytes raw = 4;
  confluent.type.Decimal tax = 5;
}`
	orderMessage = `{"id":"9007199254740993","lines":[{"item":"tea","price":{"cents":"120"}}],"at":"2026-11-23T10:00:00.120Z","raw":"AP9h","tax":{"scale":2}}`

	moneyJSON = `{"$id":"money.json","type":"object","properties":{"cents":{"type":"integer"}},"required":["cents"]}`
	orderJSON = `{"title":"Order","type":"object","properties":{"id":{"type":"integer"},"total":{"$ref":"money.json"}},"required":["id"]}`
	orderBody = `{"id":9007199254740993,"total":{"cents":5},"name":"é"}`
)

var samples = []sample{
	{name: "avro", format: Avro, schema: orderAvro, references: []Reference{{"shop.Money", "money-avro", moneyAvro}}, value: orderValue, want: orderWant},
	{name: "avro text", format: Avro, schema: `"string"`, value: `"some text for a key"`, want: `"some text for a key"`},
	{
		name: "protobuf", format: Protobuf, schema: orderProto, references: []Reference{{"shop/money.proto", "money-proto", moneyProto}},
		message: "shop.Order", value: orderMessage, want: orderMessage,
	},
	{
		name: "protobuf nested", format: Protobuf, schema: orderProto, references: []Reference{{"shop/money.proto", "money-proto", moneyProto}},
		message: "shop.Order.Line", value: `{"item":"tea"}`, want: `{"item":"tea"}`,
	},
	{
		name: "protobuf raw", format: Protobuf, schema: moneyProto, message: "shop.Money",
		value: `{"$raw":"CAWiBgF4"}`, want: `{"cents":"5"}`, // field 100 is unknown
	},
	{name: "json", format: JSON, schema: orderJSON, references: []Reference{{"money.json", "money-json", moneyJSON}}, value: orderBody, want: orderBody},
}

func connect(t *testing.T) (*registry.Registry, Connection) {
	t.Helper()
	r := registry.New(registry.Options{User: "u", Password: "p:q"})
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	return r, Connection{RegistryURL: server.URL, User: "u", Password: "p:q"}
}

func (s sample) encode(to Connection, part, framing string) EncodeRequest {
	return EncodeRequest{
		Connection: to, Topic: strings.ReplaceAll(s.name, " ", "."), Part: part, Format: s.format, Framing: framing,
		Schema: s.schema, References: s.references, Message: s.message, Value: json.RawMessage(s.value),
	}
}

func (s sample) decode(from EncodeRequest, e Encoded) DecodeRequest {
	return DecodeRequest{
		Connection: from.Connection, Topic: from.Topic, Part: from.Part, Format: s.format, Value: e.Value, Headers: e.Headers,
		Schema: s.schema, References: s.references, Message: s.message,
	}
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	parse := func(text string) (value any) {
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.UseNumber()
		if err := decoder.Decode(&value); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		return value
	}
	return reflect.DeepEqual(parse(a), parse(b))
}

func TestPython(t *testing.T) {
	t.Parallel()
	python, err := Python(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, framing := range []string{Prefix, Header} {
		for _, part := range []string{Key, Value} {
			t.Run(framing+" "+part, func(t *testing.T) {
				t.Parallel()
				roundTrip(t, python, part, framing)
			})
		}
	}
}

// roundTrip encodes all samples and decodes the results. The decoder runs in another process than the encoder, so it
// cannot use the schemas that the encoder has cached.
func roundTrip(t *testing.T, python *PythonClient, part, framing string) {
	_, to := connect(t)
	var questions []EncodeRequest
	for _, s := range samples {
		questions = append(questions, s.encode(to, part, framing))
	}
	encoded, err := python.Encode(t.Context(), questions...)
	if err != nil {
		t.Fatal(err)
	}
	var back []DecodeRequest
	for i, s := range samples {
		checkFraming(t, s.name, part, framing, encoded[i])
		back = append(back, s.decode(questions[i], encoded[i]))
	}
	decoded, err := python.Decode(t.Context(), back...)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range samples {
		if decoded[i].Error != "" {
			t.Errorf("decode %s: %s", s.name, decoded[i].Error)
		} else if !sameJSON(t, string(decoded[i].Value), s.want) {
			t.Errorf("%s: got  %s\nwant %s", s.name, decoded[i].Value, s.want)
		}
	}
}

// checkFraming checks that an encoded key or value names its schema in the prefix or in the header, as the framing
// says.
func checkFraming(t *testing.T, name, part, framing string, e Encoded) {
	t.Helper()
	switch {
	case e.Error != "":
		t.Errorf("encode %s: %s", name, e.Error)
	case framing == Prefix && (len(e.Headers) != 0 || len(e.Value) < 5 || e.Value[0] != 0):
		t.Errorf("%s: %x %v", name, e.Value, e.Headers)
	case framing == Header && (len(e.Headers) != 1 || e.Headers[0].Name != "__"+part+"_schema_id" || e.Headers[0].Value[0] != 1):
		t.Errorf("%s: %x %v", name, e.Value, e.Headers)
	}
}

// The client for Node writes Protobuf values without the indexes of the message. The test adds these indexes, because
// the decoder in Python needs them.
func TestNode(t *testing.T) {
	t.Parallel()
	node, err := Node(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	python, err := Python(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, to := connect(t)
	var questions []EncodeRequest
	for _, s := range nodeSamples {
		questions = append(questions, s.encode(to, Value, Prefix))
	}
	encoded, err := node.Encode(t.Context(), questions...)
	if err != nil {
		t.Fatal(err)
	}
	var back []DecodeRequest
	for i, s := range nodeSamples {
		checkFraming(t, s.name, Value, Prefix, encoded[i])
		if s.format == Protobuf && len(encoded[i].Value) > 5 {
			encoded[i].Value = bytes.Join([][]byte{encoded[i].Value[:5], encoded[i].Value[5:]}, []byte{0})
		}
		back = append(back, s.decode(questions[i], encoded[i]))
	}
	decoded, err := python.Decode(t.Context(), back...)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range nodeSamples {
		if decoded[i].Error != "" || !sameJSON(t, string(decoded[i].Value), s.want) {
			t.Errorf("%s: got  %s%s\nwant %s", s.name, decoded[i].Value, decoded[i].Error, s.want)
		}
	}
}

var nodeSamples = []sample{
	{
		name: "avro", format: Avro, references: []Reference{{"shop.Money", "money-avro", moneyAvro}},
		schema: `{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"raw","type":"bytes"},
			{"name":"ratio","type":"double"},{"name":"total","type":["null","shop.Money"]},{"name":"paid","type":[
			"shop.Money",{"type":"record","name":"Card","fields":[{"name":"cents","type":"long"}]}]}]}`,
		value: `{"raw":{"$bytes":"AP9h"},"ratio":{"$float":"Infinity"},"total":{"cents":7},"paid":{"$tuple":["shop.Card",{"cents":8}]}}`,
		want:  `{"raw":"\u0000ÿa","ratio":"Infinity","total":{"cents":7},"paid":{"cents":8}}`,
	},
	{
		name: "protobuf", format: Protobuf, references: []Reference{{"shop/money.proto", "money-proto", moneyProto}},
		schema:  "syntax = \"proto3\";\npackage shop;\nimport \"shop/money.proto\";\nmessage Order { int32 id = 1; Money total = 2; bytes raw = 3; }",
		message: "shop.Order", value: `{"id":5,"total":{"cents":7},"raw":{"$bytes":"AP9h"}}`, want: `{"id":5,"total":{"cents":"7"},"raw":"AP9h"}`,
	},
	{name: "json", format: JSON, schema: orderJSON, references: []Reference{{"money.json", "money-json", moneyJSON}}, value: `{"id":5,"total":{"cents":5}}`, want: `{"id":5,"total":{"cents":5}}`},
}

// When a client refuses one request, it still answers the other requests.
func TestRefusedRequests(t *testing.T) {
	t.Parallel()
	_, to := connect(t)
	good := sample{name: "json", format: JSON, schema: `{"type":"object"}`, value: `{}`}.encode(to, Value, Prefix)
	bad := sample{name: "json", format: JSON, schema: `{"type":"object"}`, value: `7`}.encode(to, Value, Prefix)
	denied := good
	denied.Password = "wrong"
	python, err := Python(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	answers, err := python.Encode(t.Context(), bad, denied, good)
	if err != nil {
		t.Fatal(err)
	}
	if answers[0].Error == "" || !strings.Contains(answers[1].Error, "401") || answers[2].Error != "" {
		t.Errorf("python: %+v", answers)
	}
	node, err := Node(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	header := good
	header.Framing = Header
	answers, err = node.Encode(t.Context(), bad, denied, header, good)
	if err != nil {
		t.Fatal(err)
	}
	if answers[0].Error == "" || answers[1].Error == "" || answers[2].Error == "" || answers[3].Error != "" {
		t.Errorf("node: %+v", answers)
	}
}

func TestMissingPrograms(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := Python(t.Context()); err == nil || !strings.Contains(err.Error(), "needs python3") {
		t.Error(err)
	}
	if _, err := Node(t.Context()); err == nil || !strings.Contains(err.Error(), "needs node") {
		t.Error(err)
	}
}

func TestCacheFolder(t *testing.T) {
	t.Parallel()
	moved := filepath.Join(t.TempDir(), "cache")
	folder, err := cacheFolder(func(string) string { return moved })
	if err != nil || folder != moved+"-official" {
		t.Errorf("%s %v", folder, err)
	}
	folder, err = cacheFolder(func(string) string { return "" })
	if err != nil || filepath.Base(folder) != "dlq-manager-stack-official" {
		t.Errorf("%s %v", folder, err)
	}
}

func TestRecordHeader(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(RecordHeader{Name: "a", Value: []byte{0, 255}})
	if want := `["a","` + base64.StdEncoding.EncodeToString([]byte{0, 255}) + `"]`; err != nil || string(text) != want {
		t.Errorf("%s %v", text, err)
	}
	var h RecordHeader
	if err := json.Unmarshal(text, &h); err != nil || h.Name != "a" || !bytes.Equal(h.Value, []byte{0, 255}) {
		t.Errorf("%+v %v", h, err)
	}
}
