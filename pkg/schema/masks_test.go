package schema

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
)

// Masks match the names of the schema: of a field, its aliases and its json_name, and whatever the branch of a union.
func TestMasksMatchTheNamesOfTheSchema(t *testing.T) {
	t.Parallel()
	const cardRecord = `{"type":"record","name":"pay.Card","fields":[{"name":"number","type":"string"}]}`
	text := func(s string) []byte { return append([]byte{byte(2 * len(s))}, s...) }
	many := ""
	for i := range 100 {
		many += fmt.Sprintf(" message M%d { string v = 1; }", i)
	}
	for name, c := range map[string]struct {
		format, schema string
		data           []byte
		want           string
	}{
		"Branch": {
			"", `{"type":"record","name":"R","fields":[{"name":"card","type":["null",` + cardRecord + `,{"type":"record","name":"pay.Bank","fields":[]}]}]}`,
			append([]byte{2}, text("4222")...), `{"card":{"pay.Card":{"number":"***"}}}`,
		},
		"PlainBranch": {
			"", `{"type":"record","name":"R","fields":[{"name":"card","type":["null",` + cardRecord + `]}]}`,
			append([]byte{2}, text("4222")...), `{"card":{"number":"***"}}`,
		},
		"Alias": {"", `{"type":"record","name":"R","fields":[{"name":"x","type":"string","aliases":["ssn"]}]}`, text("999"), `{"x":"***"}`},
		"BranchOfExceptions": {
			"", `{"type":"record","name":"R","fields":[{"name":"ssn","type":["null","double"]}]}`,
			append([]byte{2}, 0, 0, 0, 0, 0, 0, 0xf8, 0x7f), `{"ssn":"***"}`,
		},
		"Recursion": {
			"", `{"type":"record","name":"R","fields":[{"name":"ssn","type":"string"},{"name":"next","type":["null","R"]}]}`,
			append(append(text("9"), 2), append(text("8"), 0)...), `{"ssn":"***","next":{"ssn":"***","next":null}}`,
		},
		"Map": {
			"", `{"type":"record","name":"R","fields":[{"name":"cards","type":{"type":"map","values":` + cardRecord + `}}]}`,
			append(append([]byte{2}, append(text("a"), text("4222")...)...), 0), `{"cards":{"a":{"number":"***"}}}`,
		},
		"JSONName": {
			"PROTOBUF", `syntax = "proto3"; message R { string ssn = 1 [json_name="s"]; Card card = 2 [json_name="c"]; } message Card { string number = 1 [json_name="n"]; }`,
			[]byte("\x00\x0a\x03999\x12\x06\x0a\x044222"), `{"s":"***","c":{"n":"***"}}`,
		},
		"Any": {
			"PROTOBUF", `syntax = "proto3"; import "google/protobuf/any.proto"; message R { google.protobuf.Any card = 1; } message Card { string number = 1 [json_name="n"]; }`,
			inAny("Card", "\x0a\x044222"), `{"card":{"@type":"type.googleapis.com/Card","n":"***"}}`,
		},
		"AnyOfStruct": {
			"PROTOBUF", `syntax = "proto3"; import "google/protobuf/any.proto"; import "google/protobuf/struct.proto"; message R { google.protobuf.Any card = 1; }`,
			inAny("google.protobuf.Struct", "\x0a\x10\x0a\x06number\x12\x06\x1a\x044222"), `{"card":{"@type":"type.googleapis.com/google.protobuf.Struct","value":{"number":"***"}}}`,
		},
		"AnyOfAMap": {
			"PROTOBUF", `syntax = "proto3"; import "google/protobuf/any.proto"; message R { google.protobuf.Any card = 1; } message C { map<string, Card> by = 1; } message Card { string number = 1 [json_name="n"]; }`,
			inAny("C", "\x0a\x0b\x0a\x01k\x12\x06\x0a\x044222"), `{"card":{"@type":"type.googleapis.com/C","by":{"k":{"n":"***"}}}}`,
		},
		"AnyOfTooManyTypes": {
			"PROTOBUF", `syntax = "proto3"; import "google/protobuf/any.proto"; message R { google.protobuf.Any card = 1; }` + many,
			inAny("M1", "\x0a\x044222"), `{"card":{"@type":"type.googleapis.com/M1","v":"***"}}`,
		},
		"CamelCaseUnderAJSONName": {"PROTOBUF", `syntax = "proto3"; message R { string pin_code = 1 [json_name="h"]; }`, []byte("\x00\x0a\x041234"), `{"h":"***"}`},
		"AllEntries": {
			"", `{"type":"record","name":"R","fields":[{"name":"all","type":{"type":"map","values":` + cardRecord + `}}]}`,
			append(append([]byte{2}, append(text("a"), text("4222")...)...), 0), `{"all":{"a":{"number":"***"}}}`,
		},
		"CamelCase": {"PROTOBUF", `syntax = "proto3"; message R { string card_pin = 1; }`, []byte("\x00\x0a\x041234"), `{"cardPin":"***"}`},
		"MapOfMessages": {
			"PROTOBUF", `syntax = "proto3"; message R { map<string, Card> cards = 1; } message Card { string number = 1 [json_name="n"]; }`,
			[]byte("\x00\x0a\x0b\x0a\x01a\x12\x06\x0a\x044222"), `{"cards":{"a":{"n":"***"}}}`,
		},
	} {
		masks := check.Must(payload.NewMasks(payload.MaskConfig{Payload: []string{"$.card.number", "$.ssn", "$.next.ssn", "$.cards.a.number", "$.card_pin", "$.pinCode", "$.all[*].number", "$.card.by.number"}}))(t)
		f := open(t)
		f.fake.answers["/schemas/ids/90"] = object{"schemaType": c.format, "schema": c.schema}
		m := message(framed(90, c.data...))
		d := f.decode(t, m)
		check.Require(t, d.JSON != nil, "%s: not decoded: %s", name, d.Reason)
		shown, _ := masks.ReadPart(&m.Record, entity.ValuePart, d).Shown()
		check.Same(t, string(shown), c.want, name)
	}
}

// inAny returns a message with the message index 0, and an Any of that type in its first field.
func inAny(name, message string) []byte {
	url := "type.googleapis.com/" + name
	text := "\x0a" + string(rune(len(url))) + url + "\x12" + string(rune(len(message))) + message
	return []byte("\x00\x0a" + string(rune(len(text))) + text)
}

// A mask that an earlier version of a subject has a field for, and the latest has not, is reported once.
func TestMasksThatALaterVersionLosesAreReported(t *testing.T) {
	t.Parallel()
	f := open(t)
	schema := func(field string) string {
		return fmt.Sprintf(`{"type":"record","name":"R","fields":[{"name":"card","type":{"type":"record","name":"C","fields":[%s]}}]}`, field)
	}
	versions := []string{`{"name":"number","type":"string"}`, `{"name":"pan","type":"string","aliases":["number"]}`, `{"name":"pan","type":"string"}`}
	for i, field := range versions {
		id, version := 90+i, i+1
		answer := object{"subject": "orders-value", "id": id, "version": version, "schema": schema(field)}
		f.fake.answers[fmt.Sprintf("/schemas/ids/%d", id)] = answer
		f.fake.answers[fmt.Sprintf("/subjects/orders-value/versions/%d", version)] = answer
		f.fake.answers[fmt.Sprintf("/schemas/ids/%d/versions", id)] = []object{{"subject": "orders-value", "version": version}}
	}
	core, logs := observer.New(zap.WarnLevel)
	masks := check.Must(payload.NewMasks(payload.MaskConfig{Payload: []string{"$.card.number", "$.other"}}))(t)
	f.WatchMasks(masks, prometheus.NewRegistry(), zap.New(core))
	look := func(id uint32) {
		m := message(framed(id, 2, 'x'))
		r := f.Reader(t.Context())
		d := r.Decode(m, entity.ValuePart, 1<<20)
		check.Require(t, json.Valid(d.JSON), "not decoded: %s", d.Reason)
		r.Complete(m, entity.ValuePart, &d)
	}
	reported := func() float64 { return testutil.ToFloat64(f.watch.unmatched.WithLabelValues("main")) }
	f.fake.answers["/subjects/orders-value/versions/latest"] = f.fake.answers["/schemas/ids/91"]
	look(90)
	look(91)
	check.Equal(t, reported(), 0, "masks reported of a field with an alias")

	other := open(t)
	other.fake.answers = f.fake.answers
	other.fake.answers["/subjects/orders-value/versions/latest"] = f.fake.answers["/schemas/ids/92"]
	other.WatchMasks(masks, prometheus.NewRegistry(), zap.New(core))
	f = other
	look(92)
	look(92)
	look(90)
	check.Equal(t, reported(), 1, "masks reported")
	warned := logs.All()
	check.Require(t, len(warned) == 1 && warned[0].ContextMap()["mask"] == "$.card.number" && warned[0].ContextMap()["version"] == int64(3), "logged %v", warned)
}
