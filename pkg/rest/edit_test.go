package rest

import (
	"reflect"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/rest/wire"
)

func orderingFixture(messages ...entity.Message) (*fixture, *stub) {
	f, orders := newFixture(messages...), &stub{}
	f.redriver = orders
	return f, orders
}

// The payload in the body of the request is sent byte for byte.
func TestEdit_IsSentByteForByte(t *testing.T) {
	t.Parallel()
	value := func(text string) entity.Edit { return entity.Edit{SetValue: true, Value: []byte(text)} }
	for body, want := range map[string]entity.Edit{
		`{"payload": {"b" : 1.00,  "a":"\u00e9","a":2}}`: value(`{"b" : 1.00,  "a":"\u00e9","a":2}`),
		`{"payload":null}`:                           value(`null`),
		`{"payload":"text <&>"}`:                     value(`"text <&>"`),
		`{"payload":123456789012345678901234567890}`: value(`123456789012345678901234567890`),
		`{"payload_base64":"/wA="}`:                  value("\xff\x00"),
		`{"payload_base64":""}`:                      value(""),
		`{"payload_null":true}`:                      {SetValue: true},
		`{"key":"k"}`:                                {SetKey: true, Key: []byte("k")},
		`{"key":""}`:                                 {SetKey: true, Key: []byte{}},
		`{"key":null}`:                               {SetKey: true},
		`{"key_base64":"/w=="}`:                      {SetKey: true, Key: []byte{0xff}},
		`{"target_topic":"orders.retry"}`:            {Topic: "orders.retry"},
		`{"headers":[]}`:                             {SetHeaders: true},
		`{"headers":[{"key":"b","value":"2"},{"key":"a","value_base64":"/w=="},{"key":"b"},{"key":"","value":null},{"key":"c","value":""}]}`: {
			SetHeaders: true, Headers: []entity.Header{
				{Key: "b", Value: []byte("2")},
				{Key: "a", Value: []byte{0xff}},
				{Key: "b"},
				{},
				{Key: "c", Value: []byte{}},
			},
		},
	} {
		f, orders := orderingFixture(message(idA))
		wantStatus(t, f.open().do("POST", retryA, `{"edit":`+body+`}`), 200, `"edited":true`)
		if !reflect.DeepEqual(orders.retried.Edit, &want) {
			t.Errorf("edit %s: ordered %+v, want %+v", body, orders.retried.Edit, want)
		}
	}
	f, orders := orderingFixture(message(idA))
	if wantStatus(t, f.open().do("POST", retryA, `{}`), 200, `"edited":false`); orders.retried.Edit != nil {
		t.Errorf("without an edit: ordered %+v", orders.retried.Edit)
	}
}

func TestEdit_Bad(t *testing.T) {
	t.Parallel()
	for field, bodies := range map[string][]string{
		"edit":                {`{}`, `[]`, `null`, `{"payload_null":false}`},
		"edit.body":           {`{"body":1}`},
		"edit.payload":        {`{"payload":1,"payload_null":true}`, `{"payload":1,"payload_base64":""}`},
		"edit.payload_base64": {`{"payload_base64":"%"}`},
		"edit.payload_null":   {`{"payload_null":null}`},
		"edit.key":            {`{"key":1}`, `{"key":"a","key_base64":"YQ=="}`},
		"edit.key_base64":     {`{"key_base64":"a"}`},
		"edit.target_topic":   {`{"target_topic":"a b"}`, `{"target_topic":""}`},
		"edit.headers":        {`{"headers":{}}`, `{"headers":[` + strings.TrimSuffix(strings.Repeat(`{"key":"a"},`, 501), ",") + `]}`},
		"edit.headers[0]":     {`{"headers":[1]}`, `{"headers":[null]}`},
		"edit.headers[0].val": {`{"headers":[{"key":"a","val":"x"}]}`},
		"edit.headers[0].key": {
			`{"headers":[{"keep":true}]}`, `{"headers":[{"key":"dlq-retry-count","keep":true}]}`,
			`{"headers":[{"key":"dlq-message-id","value":"x"}]}`, `{"headers":[{"key":"kafka_dlt-original-topic","value":"x"}]}`,
		},
		"edit.headers[1].key": {
			`{"headers":[{"key":"a"},{"value":"x"}]}`,
			`{"headers":[{"key":"a"},{"key":"dlq-retry-count","value":"0"}]}`,
		},
		"edit.headers[0].value":        {`{"headers":[{"key":"a","value":1}]}`, `{"headers":[{"key":"a","value":"x","value_base64":""}]}`},
		"edit.headers[0].value_base64": {`{"headers":[{"key":"a","value_base64":"?"}]}`},
		"edit.headers[0].keep": {
			`{"headers":[{"key":"a","keep":true}]}`, `{"headers":[{"key":"a","keep":true,"value":"x"}]}`,
			`{"headers":[{"key":"a","keep":true,"value":null}]}`, `{"headers":[{"key":"a","keep":1}]}`,
		},
	} {
		for _, body := range bodies {
			f, orders := orderingFixture(message(idA, func(m *entity.Message) { m.Failure.Dialect = "spring" }))
			f.with(WithDialects(stripped{is: func(dialect, topic, name string) bool {
				return dialect == "spring" && topic == "orders.events.v1" && strings.HasPrefix(name, "kafka_dlt-")
			}}))
			wantEnvelope(t, f.open().do("POST", retryA, `{"edit":`+body+`}`), 400, field)
			if orders.retried.Edit != nil {
				t.Errorf("edit %.80s: ordered %+v", body, orders.retried.Edit)
			}
		}
	}
}

// A retry with an edit needs the role edit on the original topic, and on the target topic that the edit sets. A redrive
// with a patch needs the role edit too.
func TestEdit_NeedsItsOwnGrant(t *testing.T) {
	t.Parallel()
	f, orders := orderingFixture(message(idA))
	op := person("op", "*", auth.Operator)
	f.guarded(op, grants("ed", op, person("", "orders.*", auth.Edit)))
	wantEnvelope(t, f.by("op", "POST", retryA, `{"edit":{"payload":1}}`), 403)
	wantEnvelope(t, f.by("ed", "POST", retryA, `{"edit":{"payload":1,"target_topic":"payments"}}`), 403)
	if orders.retried.ID == idA {
		t.Error("a retry was ordered")
	}
	wantStatus(t, f.by("op", "POST", retryA, `{}`), 200)
	wantStatus(t, f.by("ed", "POST", retryA, `{"edit":{"payload":1,"target_topic":"orders.retry"}}`), 200)
	order := `{"filter":{"topic":"orders.dlq.v1"},"patch":[{"op":"add","path":"/a","value":1}]}`
	wantEnvelope(t, f.by("op", "POST", redrivesPath, order), 403)
	wantStatus(t, f.by("ed", "POST", redrivesPath, order), 202)
}

// The history shows how the edited record that was sent differs from the message; the stored message is unchanged.
func TestEdit_HistoryHasTheDifference(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA)).open()
	body := `{"edit":{"payload":{"order_id":"124"},"key":null,"headers":[{"key":"a","value":"1"}],"target_topic":"orders.retry"}}`
	wantStatus(t, f.do("POST", retryA, body), 200)
	wantStatus(t, f.do("GET", oneA+"/history", ""), 200, `"topic":"orders.retry",`,
		`"edit":{"target_topic":"orders.retry","payload_changed":true,"payload_patch":[{"op":"replace","path":"/order_id","value":"124"}],`+
			`"key_changed":true,"headers_changed":true,"headers":[{"key":"a","value":{"encoding":"utf8","data":"1"}}],"redrive_patch":null}`)
	if got := f.do("GET", oneA+"/payload", "").Body.String(); got != `{"order_id": "123"}` {
		t.Errorf("the message's payload is %s, want it as before", got)
	}
}

// When the edited payload and the message's payload cannot be compared as JSON, the history still says that the payload
// changed.
func TestEdit_HistoryOfWhatIsNotJSON(t *testing.T) {
	t.Parallel()
	for value, edit := range map[string]string{"\xff": `{"payload":1}`, `{"a":1}`: `{"payload_base64":"/w=="}`, `{"a":2}`: `{"payload_null":true}`} {
		f := newFixture(message(idA, withValue(value))).open()
		wantStatus(t, f.do("POST", retryA, `{"edit":`+edit+`}`), 200)
		wantStatus(t, f.do("GET", oneA+"/history", ""), 200, `"payload_changed":true,"payload_patch":null`)
	}
}

func TestPatch_BadOnesAreRefused(t *testing.T) {
	t.Parallel()
	f, orders := orderingFixture()
	f.open()
	filter := `{"filter":{"topic":"t"},`
	for body, field := range map[string]string{
		`"patch":{}}`:                                            "patch",
		`"patch":null}`:                                          "patch",
		`"patch":[{"op":"frob","path":"/a"}]}`:                   "patch[0]",
		`"patch":[{"op":"add","path":"a","value":1}]}`:           "patch[0]",
		`"patch":[{"op":"remove","path":"/a"}],"action":"dead"}`: "patch",
		`"original_topic":"x"}`:                                  "original_topic",
		`"action":"map"}`:                                        "original_topic",
		`"action":"map","original_topic":"a b"}`:                 "original_topic",
		`"action":"map","original_topic":"a","canary":1}`:        "canary",
	} {
		wantEnvelope(t, f.do("POST", redrivesPath, filter+body), 400, field)
	}
	wantStatus(t, f.do("POST", redrivesPath, filter+`"patch":[ {"op":"remove", "path":"/a"} ]}`), 202)
	if len(orders.begun) != 1 || string(orders.begun[0].Options.Patch) != `[ {"op":"remove", "path":"/a"} ]` {
		t.Errorf("begun %+v, want the good one alone, its patch as it was sent", orders.begun)
	}
}

// A principal to whom a header is shown masked can keep that header in an edit. The attempt then sends the record's own
// value of this header.
func TestEdit_KeepsHeadersThatAreMasked(t *testing.T) {
	t.Parallel()
	own := []entity.Header{
		{Key: "authorization", Value: []byte("one")},
		{Key: "tenant", Value: []byte("acme")},
		{Key: "authorization", Value: []byte(wire.MaskedText)},
		{Key: "Authorization", Value: []byte("another")},
		{Key: "null"},
	}
	f, orders := orderingFixture(message(idA, func(m *entity.Message) { m.Record.Headers = own }))
	f.with(WithMasks(maskOf("authorization"))).guarded(person("ed", "*", auth.Operator, auth.Edit))
	body := `{"edit":{"headers":[{"key":"x","value":"1"},{"key":"authorization","keep":true},{"key":"tenant","keep":false,"value":"b"},{"key":"null","keep":true}]}}`
	w := f.by("ed", "POST", retryA, body)
	wantStatus(t, w, 200)
	wantWithout(t, w, "one")
	want := []entity.Header{{Key: "x", Value: []byte("1")}, own[0], own[2], {Key: "tenant", Value: []byte("b")}, own[4]}
	if !reflect.DeepEqual(orders.retried.Edit.Headers, want) {
		t.Errorf("sent %+v, want %+v", orders.retried.Edit.Headers, want)
	}
	wantEnvelope(t, f.by("ed", "POST", retryA, `{"edit":{"headers":[{"key":"authorization","value":"***"}]}}`), 400, "edit.headers[0].value")
}

// An error about an invalid value says which values are allowed.
func TestErrors_NameWhatWasExpected(t *testing.T) {
	t.Parallel()
	f, _ := orderingFixture(message(idA))
	f.open()
	wantStatus(t, f.do("POST", retryA, `{"edit":{"payload_null":"x"}}`), 400,
		`"details":[{"field":"edit.payload_null","reason":"must be a boolean"}]`)
	wantStatus(t, f.do("POST", retryA, `{"edit":{"headers":[{"key":"a","keep":"x"}]}}`), 400,
		`"details":[{"field":"edit.headers[0].keep","reason":"must be a boolean"}]`)
	wantStatus(t, f.do("POST", redrivesPath, `{"filter":{"topic":"t"},"patch":[{"op":"frob","path":"/a"}]}`), 400,
		`"message":"patch[0]: op must be add, remove, replace, move, copy or test, not \"frob\""`)
}
