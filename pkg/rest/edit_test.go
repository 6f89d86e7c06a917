package rest

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// ordered is a redriver that keeps what was ordered and does nothing.
type ordered struct {
	redriverFunc
	retry *entity.RetryOrder
	begun *[]repository.NewRedrive
}

func (o ordered) Retry(_ context.Context, order entity.RetryOrder) (entity.RetryResult, error) {
	*o.retry = order
	return entity.RetryResult{ID: order.ID, Status: entity.Resolved}, nil
}

func (o ordered) Begin(_ context.Context, n repository.NewRedrive) (entity.Redrive, error) {
	*o.begun = append(*o.begun, n)
	return begunRedrive(orNew(n.Cause.Operation), n.Action), nil
}

func orderingFixture(messages ...entity.Message) (*fixture, *entity.RetryOrder, *[]repository.NewRedrive) {
	f, retry, begun := newFixture(messages...), new(entity.RetryOrder), new([]repository.NewRedrive)
	f.redriver = ordered{retry: retry, begun: begun}
	return f, retry, begun
}

const retryA = "/api/v1/dlq/messages/550e8400-e29b-41d4-a716-446655440000/retry"

// What the body says is what is sent, byte for byte.
func TestEdit_IsSentByteForByte(t *testing.T) {
	t.Parallel()
	null := func(e entity.Edit) *entity.Edit { return &e }
	for body, want := range map[string]*entity.Edit{
		`{"payload": {"b" : 1.00,  "a":"\u00e9","a":2}}`: {SetValue: true, Value: []byte(`{"b" : 1.00,  "a":"\u00e9","a":2}`)},
		`{"payload":null}`:                           {SetValue: true, Value: []byte(`null`)},
		`{"payload":"text <&>"}`:                     {SetValue: true, Value: []byte(`"text <&>"`)},
		`{"payload":123456789012345678901234567890}`: {SetValue: true, Value: []byte(`123456789012345678901234567890`)},
		`{"payload_base64":"/wA="}`:                  {SetValue: true, Value: []byte{0xff, 0}},
		`{"payload_base64":""}`:                      {SetValue: true, Value: []byte{}},
		`{"payload_null":true}`:                      null(entity.Edit{SetValue: true}),
		`{"key":"k"}`:                                {SetKey: true, Key: []byte("k")},
		`{"key":""}`:                                 {SetKey: true, Key: []byte{}},
		`{"key":null}`:                               null(entity.Edit{SetKey: true}),
		`{"key_base64":"/w=="}`:                      {SetKey: true, Key: []byte{0xff}},
		`{"target_topic":"orders.retry"}`:            {Topic: "orders.retry"},
		`{"headers":[]}`:                             null(entity.Edit{SetHeaders: true}),
		`{"headers":[{"key":"b","value":"2"},{"key":"a","value_base64":"/w=="},{"key":"b"},{"key":"","value":null},{"key":"c","value":""}]}`: {
			SetHeaders: true, Headers: []entity.Header{{Key: "b", Value: []byte("2")}, {Key: "a", Value: []byte{0xff}}, {Key: "b"}, {}, {Key: "c", Value: []byte{}}},
		},
	} {
		f, retry, _ := orderingFixture(message(idA))
		w := f.open().do("POST", retryA, `{"edit":`+body+`}`)
		if w.Code != 200 || !reflect.DeepEqual(retry.Edit, want) || !strings.Contains(w.Body.String(), `"edited":true`) {
			t.Errorf("edit %s = %d %s, ordered %+v, want %+v", body, w.Code, w.Body, retry.Edit, want)
		}
	}
	f, retry, _ := orderingFixture(message(idA))
	if w := f.open().do("POST", retryA, `{}`); retry.Edit != nil || !strings.Contains(w.Body.String(), `"edited":false`) {
		t.Errorf("without an edit: %s, ordered %+v", w.Body, retry.Edit)
	}
}

func TestEdit_Bad(t *testing.T) {
	t.Parallel()
	for body, field := range map[string]string{
		`{}`:                                "edit",
		`[]`:                                "edit",
		`null`:                              "edit",
		`{"payload_null":false}`:            "edit",
		`{"body":1}`:                        "edit.body",
		`{"payload":1,"payload_null":true}`: "edit.payload",
		`{"payload":1,"payload_base64":""}`: "edit.payload",
		`{"payload_base64":"%"}`:            "edit.payload_base64",
		`{"payload_null":null}`:             "edit.payload_null",
		`{"key":1}`:                         "edit.key",
		`{"key":"a","key_base64":"YQ=="}`:   "edit.key",
		`{"key_base64":"a"}`:                "edit.key_base64",
		`{"target_topic":"a b"}`:            "edit.target_topic",
		`{"target_topic":""}`:               "edit.target_topic",
		`{"headers":{}}`:                    "edit.headers",
		`{"headers":[1]}`:                   "edit.headers[0]",
		`{"headers":[null]}`:                "edit.headers[0]",
		`{"headers":[{"key":"a"},{"value":"x"}]}`:                                            "edit.headers[1].key",
		`{"headers":[{"key":"a","val":"x"}]}`:                                                "edit.headers[0].val",
		`{"headers":[{"key":"a","value":1}]}`:                                                "edit.headers[0].value",
		`{"headers":[{"key":"a","value":"x","value_base64":""}]}`:                            "edit.headers[0].value",
		`{"headers":[{"key":"a","value_base64":"?"}]}`:                                       "edit.headers[0].value_base64",
		`{"headers":[{"key":"a","keep":true}]}`:                                              "edit.headers[0].keep",
		`{"headers":[{"key":"a","keep":true,"value":"x"}]}`:                                  "edit.headers[0].keep",
		`{"headers":[{"key":"a","keep":true,"value":null}]}`:                                 "edit.headers[0].keep",
		`{"headers":[{"key":"a","keep":1}]}`:                                                 "edit.headers[0].keep",
		`{"headers":[{"keep":true}]}`:                                                        "edit.headers[0].key",
		`{"headers":[{"key":"dlq-retry-count","keep":true}]}`:                                "edit.headers[0].key",
		`{"headers":[{"key":"a"},{"key":"dlq-retry-count","value":"0"}]}`:                    "edit.headers[1].key",
		`{"headers":[{"key":"dlq-message-id","value":"x"}]}`:                                 "edit.headers[0].key",
		`{"headers":[{"key":"kafka_dlt-original-topic","value":"x"}]}`:                       "edit.headers[0].key",
		`{"headers":[` + strings.TrimSuffix(strings.Repeat(`{"key":"a"},`, 501), ",") + `]}`: "edit.headers",
	} {
		f, retry, _ := orderingFixture(message(idA, func(m *entity.Message) { m.Failure.Dialect = "spring" }))
		f.options = []Option{withStripped(func(dialect, topic, name string) bool {
			return dialect == "spring" && topic == "orders.events.v1" && strings.HasPrefix(name, "kafka_dlt-")
		})}
		e := wantEnvelope(t, f.open().do("POST", retryA, `{"edit":`+body+`}`), 400, codeValidation)
		if got := firstField(e.Details); got != field || retry.Edit != nil {
			t.Errorf("edit %.80s: details %+v, want %s; ordered %+v", body, e.Details, field, retry.Edit)
		}
	}
}

// Sending something else needs a grant, on both topics.
func TestEdit_NeedsItsOwnGrant(t *testing.T) {
	t.Parallel()
	f, retry, _ := orderingFixture(message(idA))
	f.guarded(person("op", "*", auth.Operator),
		auth.Principal{Name: "ed", Grants: append(person("", "*", auth.Operator).Grants, person("", "orders.*", auth.Edit).Grants...)})
	wantEnvelope(t, f.by("op", "POST", retryA, `{"edit":{"payload":1}}`), 403, codeForbidden)
	wantEnvelope(t, f.by("ed", "POST", retryA, `{"edit":{"payload":1,"target_topic":"payments"}}`), 403, codeForbidden)
	if retry.ID == idA {
		t.Error("a retry was ordered")
	}
	for who, body := range map[string]string{"op": `{}`, "ed": `{"edit":{"payload":1,"target_topic":"orders.retry"}}`} {
		if w := f.by(who, "POST", retryA, body); w.Code != 200 {
			t.Errorf("%s: %s = %d %s", who, body, w.Code, w.Body)
		}
	}
	order := `{"filter":{"topic":"orders.dlq.v1"},"patch":[{"op":"add","path":"/a","value":1}]}`
	wantEnvelope(t, f.by("op", "POST", redrives, order), 403, codeForbidden)
	if w := f.by("ed", "POST", redrives, order); w.Code != 202 {
		t.Errorf("patch by ed = %d %s", w.Code, w.Body)
	}
}

// The history says how what was sent differed; the message is as it was.
func TestEdit_HistoryHasTheDifference(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA))
	f.redriver = editing{acknowledging{f.memory}, f.memory}
	f.open()
	before := f.do("GET", "/api/v1/dlq/messages/"+idA.String()+"/payload", "").Body.String()
	body := `{"edit":{"payload":{"order_id":"124"},"key":null,"headers":[{"key":"a","value":"1"}],"target_topic":"orders.retry"}}`
	if w := f.do("POST", retryA, body); w.Code != 200 {
		t.Fatalf("retry = %d %s", w.Code, w.Body)
	}
	var got struct {
		Attempts []struct {
			Edit  json.RawMessage
			Topic string
		}
	}
	if err := json.Unmarshal(f.do("GET", "/api/v1/dlq/messages/"+idA.String()+"/history", "").Body.Bytes(), &got); err != nil || len(got.Attempts) != 1 {
		t.Fatalf("history %+v, %v", got, err)
	}
	want := `{"target_topic":"orders.retry","payload_changed":true,"payload_patch":[{"op":"replace","path":"/order_id","value":"124"}],` +
		`"key_changed":true,"headers_changed":true,"headers":[{"key":"a","value":{"encoding":"utf8","data":"1"}}],"redrive_patch":null}`
	if !sameJSON(t, string(got.Attempts[0].Edit), want) || got.Attempts[0].Topic != "orders.retry" {
		t.Errorf("attempt %s to %s\nwant %s", got.Attempts[0].Edit, got.Attempts[0].Topic, want)
	}
	if after := f.do("GET", "/api/v1/dlq/messages/"+idA.String()+"/payload", "").Body.String(); after != before {
		t.Errorf("the message's payload is %s, want %s as before", after, before)
	}
}

// What cannot be compared is still said to have changed.
func TestEdit_HistoryOfWhatIsNotJSON(t *testing.T) {
	t.Parallel()
	for value, edit := range map[string]string{"\xff": `{"payload":1}`, `{"a":1}`: `{"payload_base64":"/w=="}`, `{"a":2}`: `{"payload_null":true}`} {
		f := newFixture(message(idA, withValue(value)))
		f.redriver = editing{acknowledging{f.memory}, f.memory}
		if w := f.open().do("POST", retryA, `{"edit":`+edit+`}`); w.Code != 200 {
			t.Fatalf("retry = %d %s", w.Code, w.Body)
		}
		if body := f.do("GET", "/api/v1/dlq/messages/"+idA.String()+"/history", "").Body.String(); !strings.Contains(body, `"payload_changed":true,"payload_patch":null`) {
			t.Errorf("%q edited to %s: %s", value, edit, body)
		}
	}
}

func TestPatch_BadOnesAreRefused(t *testing.T) {
	t.Parallel()
	filter := `{"filter":{"topic":"t"},`
	for body, field := range map[string]string{
		filter + `"patch":{}}`:                                            "patch",
		filter + `"patch":null}`:                                          "patch",
		filter + `"patch":[{"op":"frob","path":"/a"}]}`:                   "patch[0]",
		filter + `"patch":[{"op":"add","path":"a","value":1}]}`:           "patch[0]",
		filter + `"patch":[{"op":"remove","path":"/a"}],"action":"dead"}`: "patch",
		filter + `"original_topic":"x"}`:                                  "original_topic",
		filter + `"action":"map"}`:                                        "original_topic",
		filter + `"action":"map","original_topic":"a b"}`:                 "original_topic",
		filter + `"action":"map","original_topic":"a","canary":1}`:        "canary",
	} {
		f, _, begun := orderingFixture()
		e := wantEnvelope(t, f.open().do("POST", redrives, body), 400, codeValidation)
		if firstField(e.Details) != field || len(*begun) > 0 {
			t.Errorf("%s: details %+v, want %s", body, e.Details, field)
		}
	}
	f, _, begun := orderingFixture()
	if w := f.open().do("POST", redrives, filter+`"patch":[ {"op":"remove", "path":"/a"} ]}`); w.Code != 202 || string((*begun)[0].Options.Patch) != `[ {"op":"remove", "path":"/a"} ]` {
		t.Errorf("patch = %d %s, begun %+v", w.Code, w.Body, *begun)
	}
}

// Whoever does not see a masked header can keep it: the record's own value goes.
func TestEdit_KeepsHeadersThatAreMasked(t *testing.T) {
	t.Parallel()
	own := []entity.Header{
		{Key: "authorization", Value: []byte("one")},
		{Key: "tenant", Value: []byte("acme")},
		{Key: "authorization", Value: []byte(maskedText)},
		{Key: "Authorization", Value: []byte("another")},
		{Key: "null"},
	}
	f, retry, _ := orderingFixture(message(idA, func(m *entity.Message) { m.Record.Headers = own }))
	f.options = []Option{WithMasks(maskOf("authorization"))}
	f.guarded(auth.Principal{Name: "ed", Grants: append(person("", "*", auth.Operator).Grants, person("", "*", auth.Edit).Grants...)})
	body := `{"edit":{"headers":[{"key":"x","value":"1"},{"key":"authorization","keep":true},{"key":"tenant","keep":false,"value":"b"},{"key":"null","keep":true}]}}`
	w := f.by("ed", "POST", retryA, body)
	want := []entity.Header{{Key: "x", Value: []byte("1")}, own[0], own[2], {Key: "tenant", Value: []byte("b")}, own[4]}
	if w.Code != 200 || !reflect.DeepEqual(retry.Edit.Headers, want) {
		t.Errorf("retry = %d %s, sent %+v, want %+v", w.Code, w.Body, retry.Edit, want)
	}
	if strings.Contains(w.Body.String(), "one") {
		t.Errorf("the answer tells what is masked: %s", w.Body)
	}
	e := wantEnvelope(t, f.by("ed", "POST", retryA, `{"edit":{"headers":[{"key":"authorization","value":"***"}]}}`), 400, codeValidation)
	if firstField(e.Details) != "edit.headers[0].value" {
		t.Errorf("details %+v", e.Details)
	}
}

// Errors say what would have been right.
func TestErrors_NameWhatWasExpected(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]detail{
		`{"edit":{"payload_null":"x"}}`:                 {"edit.payload_null", "must be a boolean"},
		`{"edit":{"headers":[{"key":"a","keep":"x"}]}}`: {"edit.headers[0].keep", "must be a boolean"},
	} {
		f, _, _ := orderingFixture(message(idA))
		e := wantEnvelope(t, f.open().do("POST", retryA, body), 400, codeValidation)
		if len(e.Details) != 1 || e.Details[0] != want {
			t.Errorf("%s: details %+v, want %+v", body, e.Details, want)
		}
	}
	f, _, _ := orderingFixture()
	e := wantEnvelope(t, f.open().do("POST", redrives, `{"filter":{"topic":"t"},"patch":[{"op":"frob","path":"/a"}]}`), 400, codeValidation)
	if want := `patch[0]: op must be add, remove, replace, move, copy or test, not "frob"`; e.Message != want {
		t.Errorf("message %q, want %q", e.Message, want)
	}
}
