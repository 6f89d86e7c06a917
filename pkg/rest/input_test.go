package rest

import (
	"net/http"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
)

// All these requests are the client's fault: the answer has the error envelope, and is never a 5xx, plain text or a
// redirect.
func TestBadInput(t *testing.T) {
	t.Parallel()
	id := idA.String()
	f := newFixture(message(idA, in(entity.Dead, 3))).open()
	refused := func(status int, field, method, target, body string, headers ...string) {
		t.Helper()
		w := f.do(method, target, body, headers...)
		e := wantEnvelope(t, w, status)
		if got := firstField(e.Details); got != field || len(e.Message) > 300 || status == 404 && e.Message != "route not found" {
			t.Errorf("%s = %v, message %.400s; want field %q, and a short message", w.asked, e.Details, e.Message, field)
		}
		if m, err := f.memory.Get(t.Context(), idA, 0); err != nil || m.Status != entity.Dead {
			t.Errorf("message after %s = %v, %v, want it untouched", w.asked, m.Status, err)
		}
	}
	for _, bad := range []string{
		"not-a-uuid", id[1:], id + "0", strings.ReplaceAll(id, "-", ""), "%7B" + id + "%7D", "urn:uuid:" + id,
		"550e8400e-29b-41d4-a716-446655440000",
		"g50e8400-e29b-41d4-a716-446655440000", "%20" + id, id + "%00", "%ff%fe", strings.Repeat("a", 20_000), "%3Cscript%3E", "..", "x",
	} {
		target := "/api/v1/dlq/messages/" + bad
		for _, read := range []string{"", "/payload", "/history"} {
			refused(400, "id", "GET", target+read, "")
		}
		for _, change := range []string{"/retry", "/requeue", "/dead"} {
			refused(400, "id", "POST", target+change, "")
		}
		refused(400, "id", "DELETE", target, "")
	}
	for field, queries := range map[string][]string{
		"page": {
			"page=0", "page=-1", "page=1000001", "page=18446744073709551617", "page=4294967297", "page=one", "page=", "page=1.0", "page=%2B1",
			"page=0x1",
			"page=1%00", "page=%D9%A1", "page=0&page=1", "page=1&page=1",
		},
		"page_size": {"page_size=1&page=1&page_size=2", "page_size=0", "page_size=1001"},
		"query":     {"page=0;a=1", "page_size=%zz", "page=0;a=1&page_size=%zz", "x=%"},
	} {
		for _, query := range queries {
			refused(400, field, "GET", "/api/v1/dlq/t?"+query, "")
		}
	}
	refused(400, "query", "POST", retryA+"?a;b", "")
	for field, bodies := range map[string][]string{
		"force": {`{"force":true}`}, "Accept_Duplicate": {`{"Accept_Duplicate":true}`},
		"accept_duplicate": {
			`{"accept_duplicate":true,"accept_duplicate":false}`, `{"accept_duplicate":"true"}`, `{"accept_duplicate":1}`,
			`{"accept_duplicate":null}`,
		},
		"body": {
			`{} {}`, `{}x`, `{"accept_duplicate":true,}`, `{"accept_duplicate":true`, `{"acc`, `null`, `[]`, `"x"`, "\xff\x00",
			`{"a":` + strings.Repeat("[", 100_000),
		},
	} {
		for _, body := range bodies {
			refused(400, field, "POST", retryA, body)
		}
	}
	refused(400, "accept_duplicate", "POST", "/api/v1/dlq/messages/"+id+"/requeue", `{"accept_duplicate":true}`)
	refused(400, "x", "POST", "/api/v1/dlq/messages/"+id+"/dead", `{"x":1}`)
	refused(400, "topic", "POST", "/api/v1/dlq/t/retry-all", `{"topic":"x"}`)
	refused(413, "body", "POST", retryA, strings.Repeat(" ", 1<<20+1))
	for _, kind := range []string{"application/x-www-form-urlencoded", "text/plain", "application/json; ="} {
		refused(415, "", "POST", retryA, `{}`, "Content-Type", kind)
	}
	for _, target := range []string{
		"/", "/api/v2/dlq/t", "/api/v1/dlq/", "/api/v1/dlq", "/api/v1/dlq/t/", "//api/v1/dlq/t", "/api/v1/../v1/dlq/t", "/api/v1%2Fdlq/t",
		"/API/v1/dlq/t", "/healthz/",
	} {
		refused(404, "", "GET", target, "")
	}
	refused(404, "", "POST", "/api/v1/dlq//retry-all", "")
	refused(404, "", "POST", "/api/v1/dlq/messages//retry", "")
	wantAnswer(t, f.do("GET", "/api/v1/dlq/t?page=x&page_size=y", ""), 400,
		errorJSON(respond.CodeValidation, "page: must be a whole number from 1 to 1000000",
			`[{"field":"page","reason":"must be a whole number from 1 to 1000000"},{"field":"page_size","reason":"must be a whole number from 1 to 1000"}]`))
}

func firstField(list []respond.Detail) string {
	if len(list) == 0 {
		return ""
	}
	return list[0].Field
}

// Each path answers 405 to every method except its own methods, and names these in the header Allow.
func TestWrongMethods(t *testing.T) {
	t.Parallel()
	f := newFixture().open()
	path := strings.NewReplacer("{topic}", "orders", "{id}", idA.String())
	allow := map[string]string{}
	for _, rt := range append(f.server.probeRoutes(), f.server.apiRoutes()...) {
		target := path.Replace(rt.path)
		allow[target] = strings.TrimPrefix(allow[target]+", "+strings.Join(methods(rt.method), ", "), ", ")
	}
	if len(allow) < 29 {
		t.Fatalf("%d paths, want at least 29", len(allow))
	}
	for target, allowed := range allow {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "BREW", "get"} {
			if strings.Contains(", "+allowed+",", ", "+method+",") {
				continue
			}
			w := f.do(method, target, "")
			wantEnvelope(t, w, http.StatusMethodNotAllowed)
			wantHeader(t, w.Header(), "Allow", allowed)
		}
	}
}

// The method decides how a path with two routes is read: POST /api/v1/dlq/messages/retry-all retries the topic
// "messages", and GET reads a message.
func TestTopicNamedMessages(t *testing.T) {
	t.Parallel()
	f := newFixture().open()
	wantEnvelope(t, f.do("GET", "/api/v1/dlq/messages/retry-all", ""), 400)
	wantStatus(t, f.do("POST", "/api/v1/dlq/messages/retry-all", ""), 200)
	w := f.do("PUT", "/api/v1/dlq/messages/retry-all", "")
	wantHeader(t, w.Header(), "Allow", "GET, HEAD, POST, DELETE")
}

func FuzzRequest(f *testing.F) {
	const one = "/api/v1/dlq/messages/550e8400-e29b-41d4-a716-446655440000"
	for _, seed := range []struct{ method, target, body string }{
		{"GET", "/api/v1/dlq/orders.dlq.v1?page=1&page_size=20", ""},
		{"POST", one + "/retry", `{"accept_duplicate":true}`},
		{"POST", "/api/v1/dlq/%00/retry-all", "{}"},
		{"DELETE", "/api/v1/dlq/messages/%ff", "[]"},
		{"GET", "/api/v1/dlq/a%2Fb/..;?page=%", "\x00"},
		{"GET", "//%2e%2e/healthz", ""},
		{"PUT", "/readyz?;", "x"},
		{"POST", redrivesPath, `{"filter":{"topic":"t","status":["DEAD"],"created_after":"2026-02-20T10:30:00Z"},"canary":1,"canary_wait":"2s","rate":0.5}`},
		{"POST", redrivesPath, `{"ids":["` + idA.String() + `"],"action":"dead","dry_run":true,"reason":"r"}`},
		{"GET", "/api/v1/audit?kind=message&after=2026-02-20T10:30:00Z&limit=1&cursor=AA", ""},
		{"GET", redrivesPath + "/" + redrive.String() + "/items?result=waiting", ""},
		{"GET", "/api/v1/messages?topic=orders.*&status=DEAD,PENDING&payload=$.a%3D1&header=a%3Db&q=abc&sort=last_retry_at&count=exact", ""},
		{"GET", "/api/v1/export?format=csv&key_base64=AA==&limit=3&unmask=true", ""},
		{"GET", "/api/v1/archive?origin=unknown&created_after=2026-02-20T10:30:00Z", ""},
		{"GET", "/api/v1/groups?open=true&sort=open&trend=7d", ""},
		{"PATCH", "/api/v1/groups/" + idA.String(), `{"note":null,"link":"https://a.b/c","muted":true}`},
		{"PUT", mappings, `{"version":0,"rules":[{"pattern":"a*","original":"b"}],"apply":true}`},
		{"POST", one + "/origin", `{"original_topic":"orders"}`},
		{"POST", one + "/retry", `{"edit":{"payload":[1],"key":null,"headers":[{"key":"a","value":null}],"target_topic":"t"}}`},
		{"POST", redrivesPath, `{"action":"map","original_topic":"a","filter":{"payload":["$.a = 1"],"header":["a=b"],"q":"\"a b\" abc"}}`},
		{"POST", redrivesPath, `{"patch":[{"op":"add","path":"/a","value":1}],"filter":{"group_id":"` + idA.String() + `"},"dry_run":true}`},
	} {
		f.Add(seed.method, seed.target, seed.body)
	}
	f.Fuzz(func(t *testing.T, method, target, body string) {
		if !sendable(method, target) {
			return
		}
		f := newFixture(message(idA), message(idB, in(entity.Dead, 3)))
		f.index(nil)
		w := f.open().do(method, target, body)
		if w.Code >= 500 || w.Code >= 300 && w.Code < 400 {
			t.Fatalf("%s %q %q = %d %s, want no fault and no redirect", method, target, body, w.Code, w.Body)
		}
		if w.Code >= 400 {
			wantEnvelope(t, w, w.Code)
		}
	})
}
