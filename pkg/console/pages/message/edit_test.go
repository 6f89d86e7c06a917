package message_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/consoletest"
	"github.com/dlq-manager/dlq-manager/pkg/console/pages/message"
)

const (
	someHeaders = `"masked":["header:auth"],"headers":[{"key":"version","value":{"encoding":"utf8","data":"2"}},
	{"key":"auth","value":{"encoding":"utf8","data":"***"}},{"key":"kafka_dlt-original-topic","value":{"encoding":"utf8","data":"orders.events.v1"}},
	{"key":"bin","value":{"encoding":"base64","data":"/wA="}},{"key":"none","value":null}]`
	oddHeaders = `"headers":[{"key":"version","value":{"encoding":"utf8","data":"2"}},{"key":"","value":{"encoding":"utf8","data":"nameless"}},
	{"key":"two\nlines","value":{"encoding":"utf8","data":"broken"}},
	{"key":"na\ufffdme","key_base64":"bmH/bWU=","value":{"encoding":"utf8","data":"bytes"}}]`

	retryAPI = "POST " + consoletest.MessageAPI + "/retry"
)

// anEdit is the form that edits a message, with the values that a browser would send if the user changed nothing.
type anEdit struct {
	t    *testing.T
	api  *consoletest.API
	site http.Handler
	form url.Values
}

// edit opens the form of a message whose payload contains the order 123.
func edit(t *testing.T, members string) *anEdit {
	t.Helper()
	return editOf(t, members, []byte(`{"order_id": "123"}`))
}

func editOf(t *testing.T, members string, raw []byte) *anEdit {
	t.Helper()
	a := consoletest.WithMessage(t, members).Says(retryAPI, consoletest.Answers{})
	d := message.DraftOf(read(t, consoletest.AMessage(members)), raw)
	form := url.Values{
		"key": {"k1"}, "topic": {d.Topic}, "payload": {strings.ReplaceAll(message.OneBreak(d.Payload.Text), "\n", "\r\n")},
		"payload_as": {d.Payload.As}, "record_key": {d.Key.Text}, "key_as": {d.Key.As}, "do": {"check"},
	}
	for _, h := range append(d.Headers, message.NewHeader()) {
		form.Add("header_own", strconv.Itoa(h.Own))
		form.Add("header_name", h.Name)
		form.Add("header_as", h.As)
		form.Add("header_value", h.Text)
	}
	return &anEdit{t, a, consoletest.Site(t, a), form}
}

func read(t *testing.T, answer consoletest.Raw) *api.Message {
	t.Helper()
	var m api.Message
	check.NoError(t, json.Unmarshal([]byte(answer), &m))
	return &m
}

func (e *anEdit) post() *httptest.ResponseRecorder {
	e.t.Helper()
	return consoletest.Post(e.t, e.site, consoletest.MessagePath+"/edit", e.form)
}

// checked sends the form for a check and returns the page. It keeps the page's field "checked", which identifies what
// was checked, for the next call of post.
func (e *anEdit) checked() string {
	e.t.Helper()
	body := e.post().Body.String()
	elements, _ := consoletest.Elements(e.t, body)
	for _, n := range elements {
		if name, _ := consoletest.Attribute(n, "name"); name == "checked" {
			mark, _ := consoletest.Attribute(n, "value")
			e.form.Set("checked", mark)
			e.form.Set("do", "send")
			return body
		}
	}
	e.t.Fatalf("got a page that remembers no check: %s", body)
	return ""
}

// send checks the form and sends it.
func (e *anEdit) send() *httptest.ResponseRecorder {
	e.t.Helper()
	e.checked()
	return e.post()
}

func TestUntouchedEditChangesNothing(t *testing.T) {
	t.Parallel()
	for _, payload := range []string{`{"order_id": "123"}`, "{\n  \"a\": 1\n}", "{\r\n\"a\":1\r\n}"} {
		for members, raw := range map[string]string{
			`"payload":` + payload + `,` + someHeaders:                                    payload,
			`"payload":null,"payload_size":3,"payload_omitted":"not_json",` + someHeaders: "a\tb",
			`"payload":null,"payload_size":3,"payload_omitted":"not_json"`:                "\xff\x00\r",
			`"payload":null,"payload_size":null,"key":null`:                               "",
		} {
			value := []byte(raw)
			if raw == "" {
				value = nil
			}
			e := editOf(t, members, value)
			e.api.Says("GET "+consoletest.MessageAPI+"/payload", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(raw)) }))
			consoletest.WantSays(t, members, e.post(), http.StatusOK, "Nothing is changed")
		}
	}
}

func TestEditIsCheckedAndThenSent(t *testing.T) {
	t.Parallel()
	e := edit(t, someHeaders)
	consoletest.MustHave(t, consoletest.Get(t, e.site, consoletest.MessagePath+"/edit").Body.String(), "{&#34;order_id&#34;: &#34;123&#34;}", `value="version"`)
	e.form.Set("payload", `{"order_id":  "124"}`)
	e.form["header_value"][0] = "3"
	e.form["header_name"][5] = "added"
	e.form["header_value"][5] = "<new>"
	e.form.Set("reason", "wrong id")
	consoletest.MustHave(t, consoletest.Readable(t, e.checked()), "JSON : the payload is valid.", `- "order_id": "123"`, `+ "order_id": "124"`, "- version: 2",
		"+ version: 3", "+ added: <new>")
	if sent, _ := e.api.Asked(retryAPI); len(sent) != 0 {
		t.Fatal("got a check that sends something")
	}
	consoletest.WantDone(t, "sending", e.post(), "edited", consoletest.MessagePath)
	consoletest.WantSent(t, e.api, retryAPI,
		`{"edit":{"headers":[{"key":"version","value_base64":"Mw=="},{"keep":true,"key":"auth"},{"key":"bin","value_base64":"/wA="},`+
			`{"key":"none","value":null},{"key":"added","value_base64":"PG5ldz4="}],"payload":{"order_id":  "124"}},"reason":"wrong id"}`,
		"console-k1")
	// When a form is sent twice, the second request finds the message resolved, and gets the answer of the first
	// request.
	e.api.Says("GET "+consoletest.MessageAPI, consoletest.AMessage(`"status":"RESOLVED",`+someHeaders))
	consoletest.WantDone(t, "sending again", e.post(), "edited", consoletest.MessagePath)
}

func TestWhatWasNotCheckedIsNotSent(t *testing.T) {
	t.Parallel()
	e := edit(t, "")
	e.form.Set("payload", `{"order_id": "124"}`)
	e.checked()
	e.form.Set("payload", `{"order_id": "125"}`)
	consoletest.MustHave(t, e.post().Body.String(), "This is not what was checked", "125")
}

func TestPayloadThatIsNoJSONAnyMoreIsSentOnlyWhenMeant(t *testing.T) {
	t.Parallel()
	e := edit(t, "")
	e.form.Set("payload", "{\"a\": 1,\r\n \"b\": }")
	consoletest.MustHave(t, consoletest.Readable(t, e.checked()), "Not JSON : line 2, column 7")
	consoletest.MustHave(t, e.post().Body.String(), "The payload is no longer JSON")
	e.form.Set("not_json", "true")
	consoletest.WantDone(t, "what is meant so", e.post(), "edited", consoletest.MessagePath)
}

func TestHeadersOfDeadLettersAreTakenOut(t *testing.T) {
	t.Parallel()
	e := edit(t, `"headers":[{"key":"odd","value":{"encoding":"utf8","data":"1"}},{"key":"good","value":{"encoding":"utf8","data":"1"}}]`)
	e.api.Says(retryAPI, consoletest.Refuse(http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR", "edit.headers[0].key: would mark", []map[string]any{
		{"field": "edit.headers[0].key", "reason": "would mark the record as a dead letter: odd"},
	}))
	e.form["header_value"][1] = "2"
	body := e.send().Body.String()
	consoletest.MustHave(t, consoletest.Readable(t, body), "They were removed", "- odd: 1", "+ good: 2")
	consoletest.MustHave(t, body, `<option value="remove" selected>`)
}

func TestRefusedEditKeepsWhatWasTyped(t *testing.T) {
	t.Parallel()
	e := edit(t, "")
	e.api.Says(retryAPI, consoletest.Refuse(http.StatusConflict, "SYS_DLQ_CONFLICT", "topic elsewhere does not exist", []map[string]any{
		{"field": "reason", "reason": "topic elsewhere does not exist"}, {"field": "class", "reason": "UNKNOWN_TOPIC"},
	}))
	e.form.Set("topic", "elsewhere")
	e.form.Set("reason", "typed reason")
	consoletest.WantSays(t, "the page", e.send(), http.StatusOK, "Topic elsewhere does not exist. Error class: UNKNOWN_TOPIC.",
		`value="elsewhere"`, `value="typed reason"`)
}

func TestBadBase64IsSaid(t *testing.T) {
	t.Parallel()
	e := edit(t, someHeaders)
	e.form.Set("payload_as", "base64")
	e.form.Set("payload", "{}")
	e.form.Set("key_as", "base64")
	e.form["header_value"][3] = "!"
	w := e.post()
	consoletest.WantSays(t, "the page", w, http.StatusOK)
	consoletest.MustHave(t, consoletest.Readable(t, w.Body.String()), "payload : must be base64", "key : must be base64", "header bin : must be base64")
}

func TestLargePayloadsAreNotEdited(t *testing.T) {
	t.Parallel()
	a := consoletest.WithMessage(t, `"payload":null,"payload_size":10485760,"payload_omitted":"too_large"`)
	body := consoletest.Get(t, consoletest.Site(t, a), consoletest.MessagePath+"/edit").Body.String()
	consoletest.MustHave(t, body, "The payload has 10.0 MiB: more than 1 MiB cannot be edited here")
	consoletest.MustNotHave(t, body, "<textarea")
	e := edit(t, "")
	e.form.Set("payload", strings.Repeat("x", message.MaxEdited+1))
	consoletest.WantSays(t, "a payload that became large", e.post(), http.StatusOK, "must have at most 1 MiB")
}

func TestWhoMayNotEditIsRefused(t *testing.T) {
	t.Parallel()
	a := consoletest.NewAPI(t).Says("GET "+consoletest.MessageAPI, consoletest.AMessage("")).As(consoletest.WithRole("operator", "*"))
	body := consoletest.Get(t, consoletest.Site(t, a), consoletest.MessagePath+"/edit").Body.String()
	consoletest.MustHave(t, body, "It cannot be sent: needs the role edit on orders.events.v1", "disabled")
	consoletest.MustNotHave(t, body, `value="check"`)

	e := edit(t, `"payload":null,"payload_size":5,"payload_omitted":"not_json"`)
	e.api.As(consoletest.ReadOnly)
	e.api.Says("GET "+consoletest.MessageAPI+"/payload", consoletest.Raw("plain"))
	e.form.Set("do", "send")
	consoletest.WantSays(t, "a form", e.post(), http.StatusOK, "needs the role operator on orders.events.v1")
	if sent, _ := e.api.Asked(retryAPI); len(sent) > 0 {
		t.Error("got it sent, want it refused")
	}
}

func TestEditOfWhatCannotBeSentNowIsKept(t *testing.T) {
	t.Parallel()
	e := edit(t, `"status":"RESOLVED"`)
	e.form.Set("payload", `{"typed": 1}`)
	w := e.post()
	consoletest.WantSays(t, "the page", w, http.StatusOK)
	consoletest.MustHave(t, consoletest.Readable(t, w.Body.String()), "It cannot be sent: is RESOLVED.", `"typed"`)
	consoletest.MustNotHave(t, w.Body.String(), `id="difference"`)
}

// browsed returns the header fields of a page's form as a browser sends them: fields with a single line lose their line
// breaks.
func browsed(t *testing.T, body string) url.Values {
	t.Helper()
	form, as := url.Values{}, false
	elements, _ := consoletest.Elements(t, body)
	for _, n := range elements {
		name, _ := consoletest.Attribute(n, "name")
		value, _ := consoletest.Attribute(n, "value")
		switch {
		case n.Data == "input" && strings.HasPrefix(name, "header_"):
			form.Add(name, strings.NewReplacer("\n", "", "\r", "").Replace(value))
		case n.Data == "select":
			if as = name == "header_as"; as {
				form.Add(name, "text")
			}
		case n.Data == "option" && as:
			if _, chosen := consoletest.Attribute(n, "selected"); chosen {
				form["header_as"][len(form["header_as"])-1] = value
			}
		}
	}
	return form
}

func TestHeadersThatNobodyTouchesStay(t *testing.T) {
	t.Parallel()
	e := edit(t, oddHeaders)
	page := consoletest.Get(t, e.site, consoletest.MessagePath+"/edit").Body.String()
	consoletest.MustHave(t, consoletest.Readable(t, page), "empty name", `two\nlines`, "1 header has a name that is not text")
	maps.Copy(e.form, browsed(t, page))
	consoletest.MustHave(t, e.post().Body.String(), "Nothing is changed")

	e.form["header_value"][0] = "3"
	said := consoletest.Readable(t, e.checked())
	consoletest.MustHave(t, said, "- version: 2", "+ version: 3", "not sent, because its name is not text")
	consoletest.MustNotHave(t, said, "- : nameless", "- two")
	consoletest.WantDone(t, "sending", e.post(), "edited", consoletest.MessagePath)
	consoletest.WantSent(t, e.api, retryAPI, `{"edit":{"headers":[{"key":"version","value_base64":"Mw=="},{"key":"","value_base64":"bmFtZWxlc3M="},`+
		`{"key":"two\nlines","value_base64":"YnJva2Vu"}]}}`, "console-k1")
}

func TestHeadersLeaveOnlyWhenMeant(t *testing.T) {
	t.Parallel()
	e := edit(t, oddHeaders)
	e.form["header_as"][1] = message.AsRemove
	e.form["header_name"][0] = " "
	consoletest.MustHave(t, consoletest.Readable(t, e.post().Body.String()), "- version: 2", "- : nameless", "2 headers are not sent")
}

// A key that is too long to be shown is not replaced by null: the form does not show it and counts it as unchanged.
func TestEdit_LongKeyIsSentUnchanged(t *testing.T) {
	t.Parallel()
	const long = `"key":null,"key_omitted":"too_large","key_size":41943040`
	e := edit(t, long)
	consoletest.MustHave(t, consoletest.Get(t, e.site, consoletest.MessagePath).Body.String(), "too long to be shown", "40.0 MiB")
	consoletest.MustHave(t, consoletest.Get(t, e.site, consoletest.MessagePath+"/edit").Body.String(), "key is too long to be edited here")
	consoletest.MustHave(t, e.post().Body.String(), "Nothing is changed")
}

// When the API leaves out headers of a message, the form has no headers, so that it cannot replace all headers by the
// first ones. A page shows at most MaxHeaders headers.
func TestEdit_FirstHeadersAreNotSentInPlaceOfAll(t *testing.T) {
	t.Parallel()
	for omitted, want := range map[string]int{"": 5, "too_large": 0} {
		if d := message.DraftOf(read(t, consoletest.Raw(`{`+someHeaders+`,"headers_omitted":"`+omitted+`"}`)), nil); len(d.Headers) != want {
			t.Errorf("omitted %q: the form has %d headers, want %d", omitted, len(d.Headers), want)
		}
	}
	if shown := message.DecodeHeaders(&api.Message{Headers: make([]api.Header, 10_000)}); len(shown) != message.MaxHeaders {
		t.Errorf("%d headers are shown, want %d", len(shown), message.MaxHeaders)
	}
}

func TestEditWithoutItsFieldsIsNotSent(t *testing.T) {
	t.Parallel()
	for _, name := range strings.Fields("topic payload payload_as record_key key_as header_name header_as header_value header_own") {
		e := edit(t, someHeaders)
		e.form.Set("do", "send")
		e.form.Del(name)
		consoletest.WantSays(t, "without "+name, e.post(), http.StatusOK, "Nothing was sent")
	}
	e := edit(t, someHeaders)
	e.form = nil
	consoletest.WantSays(t, "without any", e.post(), http.StatusOK, "Nothing was sent")
}

func TestCheckOfAnEditTakesNoMoreMemoryThanItCompares(t *testing.T) {
	for name, typed := range map[string]string{
		"Deep":      consoletest.Nested(5000, 20_000),
		"ManyLines": strings.Repeat("x\n", 200_000),
		"ManyPairs": strings.Repeat("x\ny\n", 1020),
		"LongLine":  strings.Repeat("x", 1<<20),
	} {
		written := strconv.Quote(strings.Repeat("1,\n", 2039))
		e := editOf(t, fmt.Sprintf(`"payload":%s,"payload_size":%d`, written, len(written)), []byte(written))
		e.form.Set("payload", typed)
		var w string
		took := consoletest.Allocated(func() { w = e.post().Body.String() })
		if most := int64(48 << 20); took > most {
			t.Errorf("%s: got %d bytes allocated for %d typed, want at most %d", name, took, len(typed), most)
		}
		consoletest.MustHave(t, w, `id="difference"`)
	}
}
