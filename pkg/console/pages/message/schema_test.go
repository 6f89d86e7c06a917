package message_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/consoletest"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/session"
)

const (
	inAvro = `"payload":{"status":"PAID"},"payload_size":9,"payload_format":"avro","payload_schema":{"registry":"main","id":7,"guid":null,
	"subject":"orders-value","version":1,"latest_version":2},"key":{"encoding":"base64","data":"AAAAAAgC"},"key_json":{"id":1},"key_size":6,
	"key_format":"avro","key_schema":{"registry":"main","id":8,"guid":null,"subject":"orders-key","version":1,"latest_version":1}`
	unreadable = `"payload":null,"payload_size":9,"payload_omitted":"schema_unavailable","payload_format":"unknown",
	"payload_reason":"registry main: 401","payload_schema":{"registry":"main","id":7,"guid":null,"subject":null,"version":null,"latest_version":null}`
	avroBytes = "\x00\x00\x00\x00\x07\x02"
)

func TestDecodedPayloadIsShown(t *testing.T) {
	t.Parallel()
	a := consoletest.WithMessage(t, inAvro).Says("GET "+consoletest.MessageAPI+"/payload", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(avroBytes))
	}))
	site := consoletest.Site(t, a)
	body := consoletest.Readable(t, consoletest.Get(t, site, consoletest.MessagePath).Body.String())
	consoletest.MustHave(t, body, "Avro, orders-value version 1 latest is 2", "Avro, orders-key version 1", `{"id":1}`, "status")
	consoletest.MustHave(t, consoletest.Get(t, site, consoletest.MessagePath+"?view=hex").Body.String(), "00000000  00 00 00 00 07 02")
	consoletest.MustNotHave(t, body, "Confluent framing", "Raw")

	a = consoletest.WithMessage(t, unreadable).Says("GET "+consoletest.MessageAPI+"/payload", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(avroBytes))
	}))
	body = consoletest.Readable(t, consoletest.Get(t, consoletest.Site(t, a), consoletest.MessagePath).Body.String())
	consoletest.MustHave(t, body, "cannot be decoded now", "registry main: 401", "unknown format, schema 7")
}

// The bytes of a decoded payload cannot be masked: they are loaded only when a viewer with the grant unmask requests
// them.
func TestBytesOfAMaskedPayloadAreLoadedOnRequest(t *testing.T) {
	t.Parallel()
	viewer := session.Viewer{Name: "eve", Mode: "token", Masking: true, Grants: []session.Grant{{Role: "viewer", Topics: []string{"*"}}, {Role: "unmask", Topics: []string{"*"}}}}
	a := consoletest.WithMessage(t, inAvro).As(viewer)
	body := consoletest.Get(t, consoletest.Site(t, a), consoletest.MessagePath+"?view=hex").Body.String()
	consoletest.MustHave(t, body, "shown only on request", "unmask=true&amp;view=hex", ">Tree</a>")
}

func TestSchemaIsComparedWithTheLatest(t *testing.T) {
	t.Parallel()
	schemaAPI := "GET " + consoletest.MessageAPI + "/schema"
	for name, test := range map[string]struct {
		answer any
		want   []string
	}{
		"Changed": {
			consoletest.Raw(`{"format":"avro","registry":"main","id":7,"guid":null,"subject":"orders-value","version":1,"latest_version":2,
			"writer":"{\"type\":\"enum\",\"symbols\":[\"NEW\",\"PAID\"]}","latest":"{\"type\":\"enum\",\"symbols\":[\"NEW\",\"SETTLED\"]}","error":null}`),
			[]string{"Latest version 2", `"PAID"`, `"SETTLED"`, "The schema of the record"},
		},
		"Same": {consoletest.Raw(`{"format":"avro","registry":"main","id":7,"guid":null,"subject":"orders-value","version":1,"latest_version":1,
			"writer":"\"int\"","latest":"\"int\"","error":null}`), []string{"written with the latest version"}},
		"Faulty": {consoletest.Raw(`{"format":"avro","registry":"main","id":7,"guid":null,"subject":null,"version":null,"latest_version":null,
			"writer":"{","latest":null,"error":"not JSON"}`), []string{"The schema cannot be used: not JSON", "The latest version is not known"}},
		"Hidden": {consoletest.Raw(`{"format":"avro","registry":"main","id":90,"guid":null,"subject":null,"version":null,"latest_version":null,
			"writer":null,"latest":null,"hidden":"none of its subjects belongs to you","error":null}`), []string{"The text of the schema is not shown: none of its subjects belongs to you."}},
		"None": {http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }), []string{"The payload has no schema"}},
		"Down": {consoletest.Refuse(http.StatusServiceUnavailable, "UNAVAILABLE", "registry main cannot be read", nil), []string{"registry main cannot be read"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := consoletest.Get(t, consoletest.Site(t, consoletest.NewAPI(t).Says(schemaAPI, test.answer)), consoletest.MessagePath+"/schema").Body.String()
			consoletest.MustHave(t, consoletest.Readable(t, body), test.want...)
		})
	}
}

func TestDecodedPartsAreEdited(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fields map[string]string
		want   string
	}{
		"Payload":           {map[string]string{"payload": `{"status":"SETTLED"}`}, `{"payload":{"status":"SETTLED"}}`},
		"Key":               {map[string]string{"record_key": `{"id":2}`}, `{"key_json":{"id":2}}`},
		"LatestSchemaAlone": {map[string]string{"schema": "latest"}, "{\"key_json\":{\"id\":1},\"payload\":{\n  \"status\": \"PAID\"\n},\"schema\":\"latest\"}"},
		"Bytes":             {map[string]string{"payload": "AAE=", "payload_as": "base64"}, `{"payload_base64":"AAE="}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := edit(t, inAvro)
			for field, text := range test.fields {
				e.form.Set(field, text)
			}
			check.Equal(t, e.send().Code, http.StatusSeeOther, "the status")
			_, bodies := e.api.Asked(retryAPI)
			if len(bodies) != 1 || !strings.Contains(bodies[0], `"edit":`+test.want) {
				t.Errorf("got %s sent, want the edit %s", bodies, test.want)
			}
		})
	}
	e := edit(t, inAvro)
	e.form.Set("payload", `{"status":`)
	e.form.Set("do", "send")
	consoletest.WantSays(t, "a payload that is not JSON", e.post(), http.StatusOK, "must be JSON, which is encoded with the schema")
	consoletest.WantSays(t, "nothing", edit(t, inAvro).post(), http.StatusOK, "Nothing is changed", "Avro, encoded from this JSON")
}
