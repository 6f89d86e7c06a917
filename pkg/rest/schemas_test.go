package rest

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// fakeSchemas decodes a value that begins with "enc:" to the JSON after this prefix. It reports the schema of the value
// "lost" as unavailable.
type fakeSchemas struct {
	to      *entity.EncodeTarget
	names   entity.Names
	visible *entity.TopicPatterns // topics of the caller of a Reader
}

func (f *fakeSchemas) ReaderFor(_ context.Context, visible *entity.TopicPatterns) entity.PartReader {
	return &fakeSchemas{f.to, f.names, visible}
}

func (f *fakeSchemas) Decode(m *entity.Message, part entity.RecordPart, _ int) entity.Decoded {
	data := string(m.Record.Value)
	if part == entity.KeyPart {
		data = string(m.Record.Key)
	}
	ref := entity.SchemaRef{Registry: "main", ID: 7}
	switch text, encoded := strings.CutPrefix(data, "enc:"); {
	case encoded:
		return entity.Decoded{Format: entity.Avro, JSON: []byte(text), Names: f.names, Schema: ref}
	case data == "lost":
		return entity.Decoded{Format: entity.UnknownFormat, Omitted: entity.SchemaUnavailable, Reason: "schema 7 is secret", Schema: ref}
	}
	return entity.Decoded{}
}

func (f *fakeSchemas) Complete(_ *entity.Message, _ entity.RecordPart, d *entity.Decoded) {
	if f.visible == nil {
		d.Schema.Subject, d.Schema.Version, d.Schema.LatestVersion = "orders-value", 1, 2
	}
}

func (f *fakeSchemas) Encode(_ context.Context, m *entity.Message, part entity.RecordPart, text []byte, to entity.EncodeTarget, field string) (e entity.EncodedPart, ok bool, err error) {
	if f.Decode(m, part, 0).Format == entity.NoFormat {
		return e, false, nil
	}
	f.to = &to
	if strings.Contains(string(text), "bad") {
		return e, true, &entity.FieldError{Field: field, Reason: "$.a: does not fit"}
	}
	if strings.Contains(string(text), "later") {
		return e, true, fmt.Errorf("schema 7: %w", entity.ErrUnavailable)
	}
	return entity.EncodedPart{Data: append([]byte("enc:"), text...)}, true, nil
}

func (f *fakeSchemas) Compare(_ context.Context, m *entity.Message, part entity.RecordPart, visible *entity.TopicPatterns) (c entity.SchemaComparison, ok bool, err error) {
	if f.Decode(m, part, 0).Format == entity.NoFormat {
		return c, false, nil
	}
	if visible != nil {
		return entity.SchemaComparison{Format: entity.Avro, Schema: entity.SchemaRef{Registry: "main", ID: 7}, Hidden: "foreign to " + visible.String()}, true, nil
	}
	return entity.SchemaComparison{Format: entity.Avro, Schema: entity.SchemaRef{Registry: "main", ID: 7}, Writer: "old", Latest: "new"}, true, nil
}

const reference = `{"registry":"main","id":7,"guid":null,"subject":"orders-value","version":1,"latest_version":2}`

func withKey(key string) func(*entity.Message) {
	return func(m *entity.Message) { m.Record.Key = []byte(key) }
}

func TestSchemas_DecodedPartsAreShown(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA, withValue(`enc:{"a":1}`), withKey(`enc:{"k":2}`))).with(WithSchemas(&fakeSchemas{})).open()
	for _, target := range []string{oneA, "/api/v1/messages", "/api/v1/export"} {
		wantStatus(t, f.do("GET", target, ""), 200, `"payload":{"a":1},`, `"payload_omitted":null,`, `"payload_format":"avro","payload_schema":`+reference+`,"payload_reason":null`,
			`"key_json":{"k":2},"key_format":"avro","key_schema":`+reference)
	}
	wantStatus(t, f.do("GET", oneA+"/schema", ""), 200, `"writer":"old","latest":"new"`)
	wantStatus(t, f.do("GET", "/api/v1/messages?omit=payload", ""), 200, `"payload":null,`, `"payload_omitted":"not_asked"`, `"payload_format":null`)

	f = newFixture(message(idA, withValue("lost"))).with(WithSchemas(&fakeSchemas{})).open()
	wantStatus(t, f.do("GET", oneA, ""), 200, `"payload":null,`, `"payload_omitted":"schema_unavailable"`, `"payload_format":"unknown"`, `"payload_reason":"schema 7 is secret"`)
}

// The caller's topics decide whether a schema that the record names, which may be any of the registry, is shown.
func TestSchemas_CallersOfSomeTopicsAreKnownToTheReader(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA, withValue(`enc:{"a":1}`), withKey(`enc:{"k":2}`))).with(WithSchemas(&fakeSchemas{}))
	f.guarded(person("ana", "orders*", auth.Viewer), person("root", "*", auth.Viewer))
	f.open()
	wantStatus(t, f.by("ana", "GET", oneA+"/schema", ""), 200, `"id":7,"guid":null,"subject":null,"version":null,"latest_version":null,"writer":null,"latest":null,"hidden":"foreign to orders*"`)
	wantStatus(t, f.by("root", "GET", oneA+"/schema", ""), 200, `"writer":"old","latest":"new","hidden":null`)
	for _, target := range []string{oneA, "/api/v1/messages", "/api/v1/export", "/api/v1/export?format=csv", "/api/v1/dlq/orders.dlq.v1"} {
		w := f.by("ana", "GET", target, "")
		wantStatus(t, w, 200, idA.String())
		wantWithout(t, w, "orders-value")
		wantStatus(t, f.by("root", "GET", target, ""), 200, "orders-value")
	}
}

// Masks apply to decoded payloads and keys; the reason why a value cannot be decoded is hidden.
func TestSchemas_MasksHideDecodedValues(t *testing.T) {
	t.Parallel()
	const card = "4111111111111111"
	masks := maskOf("$.card")
	for name, m := range map[string]entity.Message{
		"Payload":     message(idA, withValue(`enc:{"card":"`+card+`"}`)),
		"Key":         message(idA, withValue(`{}`), withKey(`enc:{"card":"`+card+`"}`)),
		"Undecodable": message(idA, withValue("lost")),
	} {
		f := newFixture(m).with(WithSchemas(&fakeSchemas{}), WithMasks(masks), WithDerivedMasks(derivedByHeader{masks}))
		f.guarded(person("ana", "*", auth.Admin))
		f.index(masks)
		for _, target := range []string{oneA, "/api/v1/messages", "/api/v1/export", "/api/v1/export?format=csv"} {
			body := f.by("ana", "GET", target, "").Body.String()
			if strings.Contains(body, card) || strings.Contains(body, "secret") || !strings.Contains(body, idA.String()) {
				t.Errorf("%s: %s shows %s", name, target, body)
			}
		}
	}
}

func TestSchemas_EditsAreEncoded(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]entity.Edit{
		`{"payload":{"a":2}}`: {SetValue: true, Value: []byte(`enc:{"a":2}`)},
		`{"payload":{"a":2},"schema":"latest","target_topic":"orders.new"}`: {SetValue: true, Value: []byte(`enc:{"a":2}`), Topic: "orders.new"},
		`{"key_json":{"k":2}}`:      {SetKey: true, Key: []byte(`enc:{"k":2}`)},
		`{"payload_base64":"/w=="}`: {SetValue: true, Value: []byte("\xff")},
	} {
		f, orders := orderingFixture(message(idA, withValue(`enc:{"a":1}`), withKey(`enc:{"k":1}`)))
		schemas := &fakeSchemas{}
		wantStatus(t, f.with(WithSchemas(schemas)).open().do("POST", retryA, `{"edit":`+body+`}`), 200, `"edited":true`)
		if !reflect.DeepEqual(orders.retried.Edit, &want) {
			t.Errorf("edit %s: ordered %+v, want %+v", body, orders.retried.Edit, want)
		}
		if strings.Contains(body, "latest") && (schemas.to.Schema != entity.LatestSchema || schemas.to.Topic != "orders.new") {
			t.Errorf("edit %s: encoded for %+v", body, schemas.to)
		}
	}
	for body, want := range map[string]string{
		`{"payload":"bad"}`:                `{"field":"edit.payload","reason":"$.a: does not fit"}`,
		`{"payload":"later"}`:              `{"field":"edit.payload","reason":"schema 7: unavailable"}`,
		`{"payload":{},"schema":"newest"}`: `"field":"edit.schema"`,
		`{"key":"k","schema":"latest"}`:    `"field":"edit.schema"`,
		`{"key":"k","key_json":1}`:         `"field":"edit.key"`,
	} {
		f, orders := orderingFixture(message(idA, withValue(`enc:{"a":1}`)))
		w := f.with(WithSchemas(&fakeSchemas{})).open().do("POST", retryA, `{"edit":`+body+`}`)
		if w.Code < 400 || !strings.Contains(w.Body.String(), want) || orders.retried.Edit != nil {
			t.Errorf("edit %s: got %d %s, want %s", body, w.Code, w.Body.String(), want)
		}
	}
	f, _ := orderingFixture(message(idA))
	wantStatus(t, f.open().do("POST", retryA, `{"edit":{"key_json":1}}`), 400, `the key has no schema`)
}
