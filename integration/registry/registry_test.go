package registry

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

const (
	orderAvro  = `{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"id","type":"long"}]}`
	spacedAvro = `{"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "id", "type": "long"}]}`
	otherAvro  = `{"type":"record","name":"Order","namespace":"shop","fields":[]}`
	userAvro   = `{"type":"record","name":"Cart","fields":[{"name":"order","type":["null","shop.Order"]}]}`
	orderJSON  = `{"title":"Order","type":"object"}`
	moneyProto = "syntax = \"proto3\";\npackage shop;\nmessage Money { int64 cents = 1; }\n"
	orderProto = "// An order.\nsyntax = \"proto3\";\npackage shop;\n" +
		"import \"money.proto\";\nimport \"google/protobuf/timestamp.proto\";\nimport \"confluent/meta.proto\";\n" +
		"message Zebra { Money total = 1 [(confluent.field_meta).doc = \"sum\"]; }\n" +
		"message Ape { google.protobuf.Timestamp at = 1; message Y { string a = 1; } message B {} optional int32 n = 2; }\n"
)

// call is a request to the registry, with the answer that the test expects.
type call struct {
	method, path string
	body         any
	status       int
	want         string // JSON; "" for any
}

// submit returns the body of a request that registers a schema.
func submit(kind, text string, references ...reference) submission {
	return submission{Schema: text, SchemaType: kind, References: references}
}

func quote(text string) string {
	quoted, _ := json.Marshal(text)
	return string(quoted)
}

func serve(t *testing.T, opts Options) (*Registry, string) {
	t.Helper()
	r := New(opts)
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	return r, server.URL
}

// reply holds the parts of an answer that the tests check in addition to its body.
type reply struct {
	StatusCode int
	Header     http.Header
}

func send(t *testing.T, url string, c call) (reply, string) {
	t.Helper()
	var body io.Reader
	if c.body != nil {
		text, err := json.Marshal(c.body)
		if err != nil {
			t.Fatal(err)
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(t.Context(), c.method, url+c.path, body)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{StatusCode: answer.StatusCode, Header: answer.Header}, string(text)
}

// do sends each request in turn and checks its answer.
func do(t *testing.T, url string, calls []call) {
	t.Helper()
	for _, c := range calls {
		answer, text := send(t, url, c)
		name := c.method + " " + c.path
		if answer.StatusCode != c.status {
			t.Errorf("%s: status %d, want %d: %s", name, answer.StatusCode, c.status, text)
		}
		if got := answer.Header.Get("Content-Type"); got != contentType {
			t.Errorf("%s: content type %q", name, got)
		}
		if c.want != "" && !sameJSON(t, text, c.want) {
			t.Errorf("%s: got  %s\nwant %s", name, text, c.want)
		}
	}
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var left, right any
	if err := json.Unmarshal([]byte(a), &left); err != nil {
		t.Fatalf("%v in %s", err, a)
	}
	if err := json.Unmarshal([]byte(b), &right); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	return reflect.DeepEqual(left, right)
}

// guid returns the GUID of a schema without references.
func guid(kind, text string) string { return guidOf(identityKey(kind, text, nil)) }

func TestSubjects(t *testing.T) {
	t.Parallel()
	_, url := serve(t, Options{})
	first := fmt.Sprintf(`{"id":1,"version":1,"guid":%q}`, guid(kindAvro, orderAvro))
	latest := fmt.Sprintf(`{"subject":"a/b","version":2,"id":2,"guid":%q,"schema":%s}`, guid(kindAvro, otherAvro), quote(otherAvro))
	do(t, url, []call{
		{"GET", "/", nil, 200, `{}`},
		{"GET", "/subjects", nil, 200, `[]`},
		{"GET", "/subjects/a%2Fb/versions", nil, 404, `{"error_code":40401,"message":"Subject 'a/b' not found."}`},
		{"POST", "/subjects/a%2Fb", submit("", orderAvro), 404, `{"error_code":40401,"message":"Subject 'a/b' not found."}`},
		{"POST", "/subjects/a%2Fb/versions", submit("", orderAvro), 200, first},
		{"POST", "/subjects/a%2Fb/versions", submit("AVRO", spacedAvro), 200, first},
		{"POST", "/subjects/c/versions?normalize=False", submit("AVRO", orderAvro), 200, first},
		{"POST", "/subjects/a%2Fb", submit("", otherAvro), 404, `{"error_code":40403,"message":"Schema not found"}`},
		{"POST", "/subjects/a%2Fb/versions", submit("", otherAvro), 200, ""},
		{"POST", "/subjects/a%2Fb?normalize=False&deleted=False", submit("", otherAvro), 200, latest},
		{"GET", "/subjects", nil, 200, `["a/b","c"]`},
		{"GET", "/subjects?subjectPrefix=c", nil, 200, `["c"]`},
		{"GET", "/subjects/a%2Fb/versions", nil, 200, `[1,2]`},
		{"GET", "/subjects/a%2Fb/versions/latest", nil, 200, latest},
		{"GET", "/subjects/a%2Fb/versions/-1", nil, 200, latest},
		{"GET", "/subjects/a%2Fb/versions/2", nil, 200, latest},
		{"GET", "/subjects/a%2Fb/versions/2/schema", nil, 200, otherAvro},
		{"GET", "/subjects/a%2Fb/versions/3", nil, 404, `{"error_code":40402,"message":"Version 3 not found."}`},
		{"GET", "/subjects/missing/versions/1", nil, 404, `{"error_code":40401,"message":"Subject 'missing' not found."}`},
		{"GET", "/subjects/a%2Fb/versions/x", nil, 422, ""},
		{"GET", "/nothing", nil, 404, `{"error_code":404,"message":"HTTP 404 Not Found"}`},
	})
}

func TestSchemas(t *testing.T) {
	t.Parallel()
	_, url := serve(t, Options{})
	avro, jsonGUID := guid(kindAvro, orderAvro), guid(kindJSON, orderJSON)
	order := reference{Name: "shop.Order", Subject: "a", Version: 1}
	references := `[{"name":"shop.Order","subject":"a","version":1}]`
	cartGUID := guidOf(identityKey(kindAvro, userAvro, []reference{order}))
	do(t, url, []call{
		{"GET", "/schemas/ids/1", nil, 404, `{"error_code":40403,"message":"Schema not found"}`},
		{"GET", "/schemas/ids/1/versions", nil, 404, `{"error_code":40403,"message":"Schema not found"}`},
		{"GET", "/schemas/ids/x", nil, 404, ""},
		{"POST", "/subjects/a/versions", submit("", orderAvro), 200, ""},
		{"POST", "/subjects/b/versions", submit("JSON", orderJSON), 200, ""},
		{"POST", "/subjects/c/versions", submit("", orderAvro), 200, ""},
		{"POST", "/subjects/d/versions", submit("", userAvro, order), 200, fmt.Sprintf(`{"id":3,"version":1,"guid":%q}`, cartGUID)},
		{"GET", "/schemas/ids/1", nil, 200, fmt.Sprintf(`{"guid":%q,"schema":%s}`, avro, quote(orderAvro))},
		{"GET", "/schemas/ids/2?subject=b", nil, 200, fmt.Sprintf(`{"guid":%q,"schemaType":"JSON","schema":%s}`, jsonGUID, quote(orderJSON))},
		{"GET", "/schemas/ids/3", nil, 200, fmt.Sprintf(`{"guid":%q,"references":%s,"schema":%s}`, cartGUID, references, quote(userAvro))},
		{"GET", "/schemas/ids/1/schema", nil, 200, orderAvro},
		{"GET", "/schemas/ids/1/versions", nil, 200, `[{"subject":"a","version":1},{"subject":"c","version":1}]`},
		{"GET", "/schemas/ids/1/subjects", nil, 200, `["a","c"]`},
		{"GET", "/schemas/guids/" + jsonGUID, nil, 200, fmt.Sprintf(`{"guid":%q,"schemaType":"JSON","schema":%s}`, jsonGUID, quote(orderJSON))},
		{"GET", "/schemas/guids/" + jsonGUID + "/ids", nil, 200, `[{"context":".","id":2}]`},
		{"GET", "/schemas/guids/x", nil, 404, `{"error_code":40403,"message":"Schema not found"}`},
		{"GET", "/schemas/types", nil, 200, `["JSON","PROTOBUF","AVRO"]`},
	})
}

func TestSettings(t *testing.T) {
	t.Parallel()
	_, url := serve(t, Options{})
	do(t, url, []call{
		{"GET", "/mode", nil, 200, `{"mode":"READWRITE"}`},
		{"GET", "/config", nil, 200, `{"compatibilityLevel":"BACKWARD"}`},
		{"GET", "/config/a", nil, 404, `{"error_code":40408,"message":"Subject 'a' does not have subject-level compatibility configured"}`},
		{"GET", "/config/a?defaultToGlobal=true", nil, 200, `{"compatibilityLevel":"BACKWARD"}`},
		{"PUT", "/config/a", map[string]string{"compatibility": "FULL"}, 200, `{"compatibility":"FULL"}`},
		{"PUT", "/config/a", map[string]string{}, 422, ""},
		{"GET", "/config/a", nil, 200, `{"compatibilityLevel":"FULL"}`},
	})
}

func TestDeletion(t *testing.T) {
	t.Parallel()
	_, url := serve(t, Options{})
	do(t, url, []call{
		{"POST", "/subjects/a/versions", submit("", orderAvro), 200, ""},
		{"POST", "/subjects/a/versions", submit("", otherAvro), 200, ""},
		{"DELETE", "/subjects/a/versions/1?permanent=true", nil, 404, ""},
		{"DELETE", "/subjects/a/versions/1", nil, 200, `1`},
		{"DELETE", "/subjects/a/versions/1", nil, 404, `{"error_code":40402,"message":"Version 1 not found."}`},
		{"GET", "/subjects/a/versions", nil, 200, `[2]`},
		{"GET", "/subjects/a/versions?deleted=true", nil, 200, `[1,2]`},
		{"GET", "/schemas/ids/1", nil, 200, ""},
		{"GET", "/schemas/ids/1/versions", nil, 200, `[]`},
		{"GET", "/schemas/ids/1/versions?deleted=true", nil, 200, `[{"subject":"a","version":1}]`},
		{"POST", "/subjects/a/versions", submit("", orderAvro), 200, ""},
		{"GET", "/subjects/a/versions", nil, 200, `[2,3]`},
		{"DELETE", "/subjects/a?permanent=true", nil, 404, ""},
		{"DELETE", "/subjects/a", nil, 200, `[2,3]`},
		{"DELETE", "/subjects/a", nil, 404, ""},
		{"GET", "/subjects", nil, 200, `[]`},
		{"GET", "/subjects?deleted=true", nil, 200, `["a"]`},
		{"DELETE", "/subjects/a?permanent=true", nil, 200, `[1,2,3]`},
		{"DELETE", "/subjects/a", nil, 404, `{"error_code":40401,"message":"Subject 'a' not found."}`},
	})
}

func TestInvalidSchemas(t *testing.T) {
	t.Parallel()
	_, url := serve(t, Options{})
	for name, body := range map[string]submission{
		"empty":                submit("", " "),
		"type":                 submit("XML", "<a/>"),
		"avro json":            submit("", `{"type":`),
		"avro type":            submit("", `{"type":"strange"}`),
		"avro field":           submit("", `{"type":"record","name":"A","fields":[{"name":"a","type":"B"}]}`),
		"avro name":            submit("", `{"type":"record","fields":[]}`),
		"avro union":           submit("", `["null",["int"]]`),
		"avro enum":            submit("", `{"type":"enum","name":"E"}`),
		"avro fixed":           submit("", `{"type":"fixed","name":"F"}`),
		"json":                 submit("JSON", `{`),
		"protobuf":             submit("PROTOBUF", "message {"),
		"protobuf import":      submit("PROTOBUF", orderProto),
		"reference to nothing": submit("", orderAvro, reference{Name: "a", Subject: "a", Version: 1}),
	} {
		answer, text := send(t, url, call{method: "POST", path: "/subjects/a/versions", body: body})
		if answer.StatusCode != 422 || !strings.Contains(text, `"error_code":42201`) {
			t.Errorf("%s: %d %s", name, answer.StatusCode, text)
		}
	}
	do(t, url, []call{{"POST", "/subjects/a/versions", "no object", 400, ""}})
}

func TestNormalize(t *testing.T) {
	t.Parallel()
	_, url := serve(t, Options{})
	do(t, url, []call{
		{"POST", "/subjects/a/versions?normalize=true", submit("JSON", `{"type":"object","title":"<A>"}`), 200, ""},
		{"POST", "/subjects/a/versions?normalize=true", submit("JSON", `{"title":"<A>","type":"object"}`), 200, ""},
		{"GET", "/subjects/a/versions", nil, 200, `[1]`},
		{"GET", "/schemas/ids/1/schema", nil, 200, `{"title":"<A>","type":"object"}`},
	})
}

// described sends a GET request and returns the description of a schema that the answer contains.
func described(t *testing.T, url, path string) description {
	t.Helper()
	answer, text := send(t, url, call{method: "GET", path: path})
	var d description
	if err := json.Unmarshal([]byte(text), &d); err != nil || answer.StatusCode != 200 {
		t.Fatalf("%s: %d %s", path, answer.StatusCode, text)
	}
	return d
}

func descriptorOf(t *testing.T, schema string) *descriptorpb.FileDescriptorProto {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(schema)
	if err != nil {
		t.Fatalf("%v in %s", err, schema)
	}
	d := &descriptorpb.FileDescriptorProto{}
	if err := proto.Unmarshal(raw, d); err != nil {
		t.Fatal(err)
	}
	return d
}

// A schema that is registered as .proto text gets the same id as the same schema registered as a serialized descriptor.
// In both forms it has the same messages in the same order.
func TestProtobufForms(t *testing.T) {
	t.Parallel()
	_, url := serve(t, Options{})
	money := reference{Name: "money.proto", Subject: "money", Version: 1}
	do(t, url, []call{
		{"POST", "/subjects/money/versions", submit("PROTOBUF", moneyProto), 200, ""},
		{"POST", "/subjects/order/versions", submit("PROTOBUF", orderProto, money), 200, ""},
	})
	if got := described(t, url, "/schemas/ids/2"); got.Schema != orderProto || got.SchemaType != kindProtobuf {
		t.Errorf("text: %+v", got)
	}
	serialized := described(t, url, "/subjects/order/versions/1?format=serialized").Schema
	first := descriptorOf(t, serialized)
	do(t, url, []call{{"POST", "/subjects/copy/versions", submit("PROTOBUF", serialized, money), 200, ""}})
	copied := described(t, url, "/subjects/copy/versions/1?format=serialized")
	if copied.ID != 2 {
		t.Errorf("the same schema has another id: %s", described(t, url, "/subjects/copy/versions/1").Schema)
	}
	_, fresh := serve(t, Options{})
	do(t, fresh, []call{
		{"POST", "/subjects/money/versions", submit("PROTOBUF", moneyProto), 200, ""},
		{"POST", "/subjects/order/versions", submit("PROTOBUF", serialized, money), 200, ""},
	})
	text := described(t, fresh, "/schemas/ids/2").Schema
	if !strings.Contains(text, "message Zebra {") || !strings.Contains(text, "field_meta") {
		t.Errorf("text from a descriptor: %s", text)
	}
	again := descriptorOf(t, described(t, fresh, "/schemas/ids/2?format=serialized").Schema)
	if !proto.Equal(first, again) {
		t.Errorf("got  %v\nwant %v", again, first)
	}
}

func TestAccess(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		opts   Options
		header string
		status int
	}{
		{"open", Options{}, "", 200},
		{"basic", Options{User: "u", Password: "p"}, "Basic " + base64.StdEncoding.EncodeToString([]byte("u:p")), 200},
		{"wrong password", Options{User: "u", Password: "p"}, "Basic " + base64.StdEncoding.EncodeToString([]byte("u:q")), 401},
		{"nothing", Options{User: "u", Password: "p"}, "", 401},
		{"token", Options{Token: "t"}, "Bearer t", 200},
		{"wrong token", Options{Token: "t"}, "Bearer x", 401},
		{"either", Options{User: "u", Password: "p", Token: "t"}, "Bearer t", 200},
		{"empty token", Options{User: "u", Password: "p"}, "Bearer ", 401},
	} {
		req := httptest.NewRequest(http.MethodGet, "/subjects", nil)
		if c.header != "" {
			req.Header.Set("Authorization", c.header)
		}
		answer := httptest.NewRecorder()
		New(c.opts).ServeHTTP(answer, req)
		if answer.Code != c.status {
			t.Errorf("%s: %d %s", c.name, answer.Code, answer.Body)
		}
		if c.status == 401 && !sameJSON(t, answer.Body.String(), `{"error_code":401,"message":"Unauthorized"}`) {
			t.Errorf("%s: %s", c.name, answer.Body)
		}
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		fail   func(*Registry)
		status int
		check  func(body string) bool
	}{
		{"status", func(r *Registry) { r.Status(503) }, 503, func(b string) bool { return strings.Contains(b, `"error_code":503`) }},
		{"garbage", func(r *Registry) { r.Content("<html>") }, 200, func(b string) bool { return !json.Valid([]byte(b)) }},
		{"huge", func(r *Registry) { r.Huge(1 << 20) }, 200, func(b string) bool { return len(b) == 1<<20 && json.Valid([]byte(b)) }},
		{"small huge", func(r *Registry) { r.Huge(3) }, 200, func(b string) bool { return len(b) == 3 }},
		{"delay", func(r *Registry) { r.Delay(time.Millisecond) }, 200, func(b string) bool { return b == "[]" }},
		{"end of status", func(r *Registry) { r.Status(500); r.Status(0) }, 200, func(b string) bool { return b == "[]" }},
		{"heal", func(r *Registry) { r.Down(true); r.Content("<html>"); r.Heal() }, 200, func(b string) bool { return b == "[]" }},
	} {
		r, url := serve(t, Options{})
		c.fail(r)
		answer, body := send(t, url, call{method: "GET", path: "/subjects"})
		if answer.StatusCode != c.status || !c.check(body) {
			t.Errorf("%s: %d %.100s", c.name, answer.StatusCode, body)
		}
	}
}

func TestDown(t *testing.T) {
	t.Parallel()
	r, url := serve(t, Options{})
	r.Down(true)
	answer, err := http.Post(url+"/subjects/a", contentType, strings.NewReader("{}"))
	if err == nil {
		answer.Body.Close()
		t.Fatal("the registry answered")
	}
	r.Down(false)
	do(t, url, []call{{"GET", "/subjects", nil, 200, `[]`}})
}

func TestRedirect(t *testing.T) {
	t.Parallel()
	away, url := serve(t, Options{})
	home, homeURL := serve(t, Options{})
	away.RedirectTo(homeURL + "/")
	do(t, url, []call{
		{"POST", "/subjects/a%2Fb/versions", submit("", orderAvro), 200, ""},
		{"GET", "/subjects?deleted=true", nil, 200, `["a/b"]`},
	})
	if home.Count() != 2 || away.Count() != 2 {
		t.Errorf("%v and %v", away.Requests(), home.Requests())
	}
}

func TestRequests(t *testing.T) {
	t.Parallel()
	r, url := serve(t, Options{})
	do(t, url, []call{
		{"GET", "/subjects?deleted=true", nil, 200, ""},
		{"GET", "/subjects/a%2Fb/versions", nil, 404, ""},
	})
	if want := []string{"GET /subjects", "GET /subjects/a%2Fb/versions"}; !reflect.DeepEqual(r.Requests(), want) {
		t.Errorf("%v", r.Requests())
	}
	r.Reset()
	if r.Count() != 0 || len(r.Requests()) != 0 {
		t.Errorf("%v", r.Requests())
	}
}

func TestParallelUse(t *testing.T) {
	t.Parallel()
	r, url := serve(t, Options{})
	var group sync.WaitGroup
	for n := range 8 {
		group.Go(func() {
			subject := fmt.Sprintf("/subjects/s%d/versions", n%2)
			answer, text := send(t, url, call{method: "POST", path: subject, body: submit("", orderAvro)})
			if answer.StatusCode != 200 || !strings.Contains(text, `"id":1,`) {
				t.Errorf("%d %s", answer.StatusCode, text)
			}
			r.Delay(0)
		})
	}
	group.Wait()
	if r.Count() != 8 {
		t.Errorf("%d requests", r.Count())
	}
}
