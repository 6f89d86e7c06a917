package rest

import (
	"net/http"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Everything here is the client's fault: one envelope, never a 5xx, never plain
// text, never a redirect.
func TestBadInput(t *testing.T) {
	t.Parallel()
	id := idA.String()
	retry := "/api/v1/dlq/messages/" + id + "/retry"
	for _, c := range []struct {
		name, method, target, body string
		status                     int
		field                      string // of the first detail
		headers                    []string
	}{
		{name: "IDWord", method: "GET", target: "/api/v1/dlq/messages/not-a-uuid", status: 400, field: "id"},
		{name: "IDShort", method: "GET", target: "/api/v1/dlq/messages/" + id[1:], status: 400, field: "id"},
		{name: "IDLong", method: "GET", target: "/api/v1/dlq/messages/" + id + "0", status: 400, field: "id"},
		{name: "IDWithoutHyphens", method: "GET", target: "/api/v1/dlq/messages/" + strings.ReplaceAll(id, "-", ""), status: 400, field: "id"},
		{name: "IDInBraces", method: "GET", target: "/api/v1/dlq/messages/%7B" + id + "%7D", status: 400, field: "id"},
		{name: "IDAsURN", method: "GET", target: "/api/v1/dlq/messages/urn:uuid:" + id, status: 400, field: "id"},
		{name: "IDHyphensElsewhere", method: "GET", target: "/api/v1/dlq/messages/550e8400e-29b-41d4-a716-446655440000", status: 400, field: "id"},
		{name: "IDNotHex", method: "DELETE", target: "/api/v1/dlq/messages/g50e8400-e29b-41d4-a716-446655440000", status: 400, field: "id"},
		{name: "IDWithSpace", method: "DELETE", target: "/api/v1/dlq/messages/%20" + id, status: 400, field: "id"},
		{name: "IDWithNUL", method: "POST", target: "/api/v1/dlq/messages/" + id + "%00/retry", status: 400, field: "id"},
		{name: "IDNotUTF8", method: "GET", target: "/api/v1/dlq/messages/%ff%fe", status: 400, field: "id"},
		{name: "IDHuge", method: "GET", target: "/api/v1/dlq/messages/" + strings.Repeat("a", 20_000), status: 400, field: "id"},
		{name: "IDMarkup", method: "POST", target: "/api/v1/dlq/messages/%3Cscript%3E/dead", status: 400, field: "id"},
		{name: "IDDots", method: "GET", target: "/api/v1/dlq/messages/..", status: 400, field: "id"},
		{name: "IDOfPayload", method: "GET", target: "/api/v1/dlq/messages/x/payload", status: 400, field: "id"},
		{name: "IDOfHistory", method: "GET", target: "/api/v1/dlq/messages/x/history", status: 400, field: "id"},
		{name: "IDOfRequeue", method: "POST", target: "/api/v1/dlq/messages/x/requeue", status: 400, field: "id"},

		{name: "PageZero", method: "GET", target: "/api/v1/dlq/t?page=0", status: 400, field: "page"},
		{name: "PageNegative", method: "GET", target: "/api/v1/dlq/t?page=-1", status: 400, field: "page"},
		{name: "PageAboveTheMost", method: "GET", target: "/api/v1/dlq/t?page=1000001", status: 400, field: "page"},
		{name: "PageOverflows", method: "GET", target: "/api/v1/dlq/t?page=18446744073709551617", status: 400, field: "page"},
		{name: "PageWraps32Bits", method: "GET", target: "/api/v1/dlq/t?page=4294967297", status: 400, field: "page"},
		{name: "PageWord", method: "GET", target: "/api/v1/dlq/t?page=one", status: 400, field: "page"},
		{name: "PageEmpty", method: "GET", target: "/api/v1/dlq/t?page=", status: 400, field: "page"},
		{name: "PageFraction", method: "GET", target: "/api/v1/dlq/t?page=1.0", status: 400, field: "page"},
		{name: "PagePlus", method: "GET", target: "/api/v1/dlq/t?page=%2B1", status: 400, field: "page"},
		{name: "PageHex", method: "GET", target: "/api/v1/dlq/t?page=0x1", status: 400, field: "page"},
		{name: "PageNUL", method: "GET", target: "/api/v1/dlq/t?page=1%00", status: 400, field: "page"},
		{name: "PageArabicDigits", method: "GET", target: "/api/v1/dlq/t?page=%D9%A1", status: 400, field: "page"},
		{name: "PageRepeatedFirstIsBad", method: "GET", target: "/api/v1/dlq/t?page=0&page=1", status: 400, field: "page"},
		{name: "PageRepeated", method: "GET", target: "/api/v1/dlq/t?page=1&page=1", status: 400, field: "page"},
		{name: "SizeRepeated", method: "GET", target: "/api/v1/dlq/t?page_size=1&page=1&page_size=2", status: 400, field: "page_size"},
		{name: "QuerySemicolon", method: "GET", target: "/api/v1/dlq/t?page=0;a=1", status: 400, field: "query"},
		{name: "QueryEscape", method: "GET", target: "/api/v1/dlq/t?page_size=%zz", status: 400, field: "query"},
		{name: "QueryBoth", method: "GET", target: "/api/v1/dlq/t?page=0;a=1&page_size=%zz", status: 400, field: "query"},
		{name: "QueryOfAnUnknownParameter", method: "GET", target: "/api/v1/dlq/t?x=%", status: 400, field: "query"},
		{name: "QueryOfAChange", method: "POST", target: retry + "?a;b", status: 400, field: "query"},
		{name: "SizeZero", method: "GET", target: "/api/v1/dlq/t?page_size=0", status: 400, field: "page_size"},
		{name: "SizeAboveTheMost", method: "GET", target: "/api/v1/dlq/t?page_size=1001", status: 400, field: "page_size"},

		{name: "BodyUnknownField", method: "POST", target: retry, body: `{"force":true}`, status: 400, field: "force"},
		{name: "BodyFieldOfAnotherCase", method: "POST", target: retry, body: `{"Accept_Duplicate":true}`, status: 400, field: "Accept_Duplicate"},
		{name: "BodyFieldTwice", method: "POST", target: retry, body: `{"accept_duplicate":true,"accept_duplicate":false}`, status: 400, field: "accept_duplicate"},
		{name: "BodyText", method: "POST", target: retry, body: `{"accept_duplicate":"true"}`, status: 400, field: "accept_duplicate"},
		{name: "BodyNumber", method: "POST", target: retry, body: `{"accept_duplicate":1}`, status: 400, field: "accept_duplicate"},
		{name: "BodyNullField", method: "POST", target: retry, body: `{"accept_duplicate":null}`, status: 400, field: "accept_duplicate"},
		{name: "BodyTrailing", method: "POST", target: retry, body: `{} {}`, status: 400, field: "body"},
		{name: "BodyTrailingText", method: "POST", target: retry, body: `{}x`, status: 400, field: "body"},
		{name: "BodyTrailingComma", method: "POST", target: retry, body: `{"accept_duplicate":true,}`, status: 400, field: "body"},
		{name: "BodyCutShort", method: "POST", target: retry, body: `{"accept_duplicate":true`, status: 400, field: "body"},
		{name: "BodyCutInName", method: "POST", target: retry, body: `{"acc`, status: 400, field: "body"},
		{name: "BodyNull", method: "POST", target: retry, body: `null`, status: 400, field: "body"},
		{name: "BodyList", method: "POST", target: retry, body: `[]`, status: 400, field: "body"},
		{name: "BodyString", method: "POST", target: retry, body: `"x"`, status: 400, field: "body"},
		{name: "BodyNotJSON", method: "POST", target: retry, body: "\xff\x00", status: 400, field: "body"},
		{name: "BodyDeep", method: "POST", target: retry, body: `{"a":` + strings.Repeat("[", 100_000), status: 400, field: "body"},
		{name: "BodyOfRequeue", method: "POST", target: "/api/v1/dlq/messages/" + id + "/requeue", body: `{"accept_duplicate":true}`, status: 400, field: "accept_duplicate"},
		{name: "BodyOfDead", method: "POST", target: "/api/v1/dlq/messages/" + id + "/dead", body: `{"x":1}`, status: 400, field: "x"},
		{name: "BodyOfRetryAll", method: "POST", target: "/api/v1/dlq/t/retry-all", body: `{"topic":"x"}`, status: 400, field: "topic"},
		{name: "BodyOversized", method: "POST", target: retry, body: strings.Repeat(" ", 1<<20+1), status: 413, field: "body"},
		{name: "BodyForm", method: "POST", target: retry, body: `a=b`, status: 415, headers: []string{"Content-Type", "application/x-www-form-urlencoded"}},
		{name: "BodyTextPlain", method: "POST", target: retry, body: `{}`, status: 415, headers: []string{"Content-Type", "text/plain"}},
		{name: "BodyBadMediaType", method: "POST", target: retry, body: `{}`, status: 415, headers: []string{"Content-Type", "application/json; ="}},

		{name: "RouteRoot", method: "GET", target: "/", status: 404},
		{name: "RouteUnknown", method: "GET", target: "/api/v2/dlq/t", status: 404},
		{name: "RouteEmptyTopic", method: "GET", target: "/api/v1/dlq/", status: 404},
		{name: "RouteNoTopic", method: "GET", target: "/api/v1/dlq", status: 404},
		{name: "RouteEmptyTopicRetryAll", method: "POST", target: "/api/v1/dlq//retry-all", status: 404},
		{name: "RouteEmptyID", method: "POST", target: "/api/v1/dlq/messages//retry", status: 404},
		{name: "RouteTrailingSlash", method: "GET", target: "/api/v1/dlq/t/", status: 404},
		{name: "RouteDoubleSlash", method: "GET", target: "//api/v1/dlq/t", status: 404},
		{name: "RouteDots", method: "GET", target: "/api/v1/../v1/dlq/t", status: 404},
		{name: "RouteEncodedSlash", method: "GET", target: "/api/v1%2Fdlq/t", status: 404},
		{name: "RouteOfAnotherCase", method: "GET", target: "/API/v1/dlq/t", status: 404},
		{name: "RouteHealthzSlash", method: "GET", target: "/healthz/", status: 404},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(message(idA, in(entity.Dead, 3))).open()
			code := codeValidation
			if c.status == 404 {
				code = codeNotFound
			}
			w := f.do(c.method, c.target, c.body, c.headers...)
			e := wantEnvelope(t, w, c.status, code)
			if c.status == 404 && e.Message != "route not found" {
				t.Errorf("message = %q, want route not found", e.Message)
			}
			if got := firstField(e.Details); got != c.field {
				t.Errorf("details = %v, want field %q", e.Details, c.field)
			}
			if len(e.Message) > 300 {
				t.Errorf("message has %d bytes, want the input clipped", len(e.Message))
			}
			if m, err := f.memory.Get(t.Context(), idA, 0); err != nil || m.Status != entity.Dead {
				t.Errorf("message afterwards = %v, %v, want it untouched", m.Status, err)
			}
		})
	}
}

func firstField(list []detail) string {
	if len(list) == 0 {
		return ""
	}
	return list[0].Field
}

func TestBothPageParametersAreReported(t *testing.T) {
	t.Parallel()
	w := newFixture().open().do("GET", "/api/v1/dlq/t?page=x&page_size=y", "")
	wantAnswer(t, w, 400, errorJSON(codeValidation, "page: must be a whole number from 1 to 1000000",
		`[{"field":"page","reason":"must be a whole number from 1 to 1000000"},{"field":"page_size","reason":"must be a whole number from 1 to 1000"}]`))
}

// Each route says 405 to every method but its own, and which those are.
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
			wantEnvelope(t, w, http.StatusMethodNotAllowed, codeValidation)
			wantHeader(t, w.Header(), "Allow", allowed)
		}
	}
}

// A topic named "messages" is still a topic where no other route is meant.
func TestTopicNamedMessages(t *testing.T) {
	t.Parallel()
	f := newFixture().open()
	wantEnvelope(t, f.do("GET", "/api/v1/dlq/messages/retry-all", ""), 400, codeValidation)
	if w := f.do("POST", "/api/v1/dlq/messages/retry-all", ""); w.Code != 200 {
		t.Errorf("POST messages/retry-all = %d, want 200", w.Code)
	}
	w := f.do("PUT", "/api/v1/dlq/messages/retry-all", "")
	wantHeader(t, w.Header(), "Allow", "GET, HEAD, POST, DELETE")
}

func FuzzRequest(f *testing.F) {
	for _, seed := range []struct{ method, target, body string }{
		{"GET", "/api/v1/dlq/orders.dlq.v1?page=1&page_size=20", ""},
		{"POST", "/api/v1/dlq/messages/" + idA.String() + "/retry", `{"accept_duplicate":true}`},
		{"POST", "/api/v1/dlq/%00/retry-all", "{}"},
		{"DELETE", "/api/v1/dlq/messages/%ff", "[]"},
		{"GET", "/api/v1/dlq/a%2Fb/..;?page=%", "\x00"},
		{"GET", "//%2e%2e/healthz", ""},
		{"PUT", "/readyz?;", "x"},
		{"POST", "/api/v1/redrives", `{"filter":{"topic":"t","status":["DEAD"],"created_after":"2026-02-20T10:30:00Z"},"canary":1,"canary_wait":"2s","rate":0.5}`},
		{"POST", "/api/v1/redrives", `{"ids":["` + idA.String() + `"],"action":"dead","dry_run":true,"reason":"r"}`},
		{"GET", "/api/v1/audit?kind=message&after=2026-02-20T10:30:00Z&limit=1&cursor=AA", ""},
		{"GET", "/api/v1/redrives/" + redrive.String() + "/items?result=waiting", ""},
		{"GET", "/api/v1/messages?topic=orders.*&status=DEAD,PENDING&payload=$.a%3D1&header=a%3Db&q=abc&sort=last_retry_at&count=exact", ""},
		{"GET", "/api/v1/export?format=csv&key_base64=AA==&limit=3&unmask=true", ""},
		{"GET", "/api/v1/archive?origin=unknown&created_after=2026-02-20T10:30:00Z", ""},
		{"GET", "/api/v1/groups?open=true&sort=open&trend=7d", ""},
		{"PATCH", "/api/v1/groups/" + idA.String(), `{"note":null,"link":"https://a.b/c","muted":true}`},
		{"PUT", "/api/v1/mappings", `{"version":0,"rules":[{"pattern":"a*","original":"b"}],"apply":true}`},
		{"POST", "/api/v1/dlq/messages/" + idA.String() + "/origin", `{"original_topic":"orders"}`},
		{"POST", "/api/v1/dlq/messages/" + idA.String() + "/retry", `{"edit":{"payload":[1],"key":null,"headers":[{"key":"a","value":null}],"target_topic":"t"}}`},
		{"POST", "/api/v1/redrives", `{"action":"map","original_topic":"a","filter":{"payload":["$.a = 1"],"header":["a=b"],"q":"\"a b\" abc"}}`},
		{"POST", "/api/v1/redrives", `{"patch":[{"op":"add","path":"/a","value":1}],"filter":{"group_id":"` + idA.String() + `"},"dry_run":true}`},
	} {
		f.Add(seed.method, seed.target, seed.body)
	}
	f.Fuzz(func(t *testing.T, method, target, body string) {
		if !sendable(method, target) {
			return
		}
		f := newFixture(message(idA), message(idB, in(entity.Dead, 3)))
		f.catalogueAll(nil)
		w := f.open().do(method, target, body)
		if w.Code >= 500 || w.Code >= 300 && w.Code < 400 {
			t.Fatalf("%s %q %q = %d %s, want no fault and no redirect", method, target, body, w.Code, w.Body)
		}
		if w.Code >= 400 {
			code := codeValidation
			switch w.Code {
			case 404:
				code = codeNotFound
			case 409:
				code = codeConflict
			}
			wantEnvelope(t, w, w.Code, code)
		}
	})
}
