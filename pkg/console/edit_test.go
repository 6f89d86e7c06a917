package console

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
)

// editForm is the form of a message's edit as a browser would send it untouched.
func editForm(m *message, raw []byte) url.Values {
	d := draftOf(m, raw)
	form := url.Values{
		"key": {"k1"}, "topic": {d.Topic}, "payload": {strings.ReplaceAll(oneBreak(d.Payload.Text), "\n", "\r\n")},
		"payload_as": {d.Payload.As}, "record_key": {d.Key.Text}, "key_as": {d.Key.As}, "do": {"check"},
	}
	for _, h := range append(d.Headers, editHeader{value: value{As: asText}}) {
		form.Add("header_own", strconv.Itoa(h.Own))
		form.Add("header_name", h.Name)
		form.Add("header_as", h.As)
		form.Add("header_value", h.Text)
	}
	return form
}

const someHeaders = `"masked":["header:auth"],"headers":[{"key":"version","value":{"encoding":"utf8","data":"2"}},{"key":"auth","value":{"encoding":"utf8","data":"***"}},
	{"key":"kafka_dlt-original-topic","value":{"encoding":"utf8","data":"orders.events.v1"}},{"key":"bin","value":{"encoding":"base64","data":"/wA="}},{"key":"none","value":null}]`

func read(t *testing.T, answer raw) *message {
	t.Helper()
	var m message
	if err := json.Unmarshal([]byte(answer), &m); err != nil {
		t.Fatal(err)
	}
	return &m
}

// checkMark is what a page that checked a form remembers of it.
func checkMark(t *testing.T, body string) string {
	t.Helper()
	elements, _ := elementsOf(t, body)
	for _, e := range elements {
		if e.attributes["name"] == "checked" {
			return e.attributes["value"]
		}
	}
	t.Fatalf("got a page that remembers no check: %s", body)
	return ""
}

func TestUntouchedEditChangesNothing(t *testing.T) {
	t.Parallel()
	for _, payload := range []string{`{"order_id": "123"}`, "{\n  \"a\": 1\n}", "{\r\n\"a\":1\r\n}"} {
		written, err := json.Marshal(payload)
		if err != nil {
			t.Fatal(err)
		}
		for members, raw := range map[string]string{
			`"payload":` + payload + `,` + someHeaders:                                    payload,
			`"payload":null,"payload_size":3,"payload_omitted":"not_json",` + someHeaders: "a\tb",
			`"payload":null,"payload_size":3,"payload_omitted":"not_json"`:                "\xff\x00\r",
			`"payload":null,"payload_size":null,"key":null`:                               "",
		} {
			a := withMessage(t, members).says("GET "+messageAPI+"/payload", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(raw)) }))
			value := []byte(raw)
			if raw == "" {
				value = nil
			}
			w := post(t, site(t, a), messagePath+"/edit", editForm(read(t, aMessage(members)), value))
			if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "Nothing is changed") {
				t.Errorf("payload %s of %s: got status %d and something changed: %s", written, members, w.Code, w.Body)
			}
		}
	}
}

func TestEditIsCheckedAndThenSent(t *testing.T) {
	t.Parallel()
	a := withMessage(t, someHeaders).says("POST "+messageAPI+"/retry", raw(`{}`))
	s := site(t, a)
	mustHave(t, get(t, s, messagePath+"/edit").Body.String(), "{&#34;order_id&#34;: &#34;123&#34;}", `value="version"`)

	form := editForm(read(t, aMessage(someHeaders)), []byte(`{"order_id": "123"}`))
	form.Set("payload", `{"order_id":  "124"}`)
	form["header_value"][0] = "3"
	form["header_name"][5] = "added"
	form["header_value"][5] = "<new>"
	w := post(t, s, messagePath+"/edit", form)
	if sent, _ := a.wasAsked("POST " + messageAPI + "/retry"); len(sent) != 0 {
		t.Fatal("got a check that sends something")
	}
	body := w.Body.String()
	mustHave(t, readable(t, body), "JSON : the payload can be read.", `- "order_id": "123"`, `+ "order_id": "124"`, "- version: 2", "+ version: 3", "+ added: <new>")
	form.Set("checked", checkMark(t, body))
	form.Set("do", "send")
	form.Set("reason", "wrong id")
	w = post(t, s, messagePath+"/edit", form)
	wantDone(t, "sending", w, "edited", messagePath)
	requests, bodies := a.wasAsked("POST " + messageAPI + "/retry")
	want := `{"edit":{"headers":[{"key":"version","value_base64":"Mw=="},{"keep":true,"key":"auth"},{"key":"bin","value_base64":"/wA="},{"key":"none","value":null},{"key":"added","value_base64":"PG5ldz4="}],"payload":{"order_id":  "124"}},"reason":"wrong id"}`
	if len(bodies) != 1 || bodies[0] != want || requests[0].Header.Get("Idempotency-Key") != "console-k1" {
		t.Errorf("got %s, want %s", bodies, want)
	}
}

func TestWhatWasNotCheckedIsNotSent(t *testing.T) {
	t.Parallel()
	a := withMessage(t, "")
	s := site(t, a)
	form := editForm(read(t, aMessage("")), []byte(`{"order_id": "123"}`))
	form.Set("payload", `{"order_id": "124"}`)
	form.Set("checked", checkMark(t, post(t, s, messagePath+"/edit", form).Body.String()))
	form.Set("payload", `{"order_id": "125"}`)
	form.Set("do", "send")
	mustHave(t, post(t, s, messagePath+"/edit", form).Body.String(), "This is not what was checked", "125")
}

func TestPayloadThatIsNoJSONAnyMoreIsSentOnlyWhenMeant(t *testing.T) {
	t.Parallel()
	a := withMessage(t, "").says("POST "+messageAPI+"/retry", raw(`{}`))
	s := site(t, a)
	form := editForm(read(t, aMessage("")), []byte(`{"order_id": "123"}`))
	form.Set("payload", "{\"a\": 1,\r\n \"b\": }")
	body := post(t, s, messagePath+"/edit", form).Body.String()
	mustHave(t, readable(t, body), "Not JSON : line 2, column 7")
	form.Set("checked", checkMark(t, body))
	form.Set("do", "send")
	mustHave(t, post(t, s, messagePath+"/edit", form).Body.String(), "The payload is not JSON any more")
	form.Set("not_json", "true")
	if w := post(t, s, messagePath+"/edit", form); w.Code != http.StatusSeeOther {
		t.Errorf("got status %d for what is meant so, want 303", w.Code)
	}
}

func TestHeadersOfDeadLettersAreTakenOut(t *testing.T) {
	t.Parallel()
	a := withMessage(t, `"headers":[{"key":"odd","value":{"encoding":"utf8","data":"1"}},{"key":"good","value":{"encoding":"utf8","data":"1"}}]`).
		says("POST "+messageAPI+"/retry", refusal{http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR", "edit.headers[0].key: would mark", []map[string]any{
			{"field": "edit.headers[0].key", "reason": "would mark the record as a dead letter: odd"},
		}})
	s := site(t, a)
	form := editForm(read(t, aMessage(`"headers":[{"key":"odd","value":{"encoding":"utf8","data":"1"}},{"key":"good","value":{"encoding":"utf8","data":"1"}}]`)), []byte(`{"order_id": "123"}`))
	form["header_value"][1] = "2"
	form.Set("checked", checkMark(t, post(t, s, messagePath+"/edit", form).Body.String()))
	form.Set("do", "send")
	w := post(t, s, messagePath+"/edit", form)
	mustHave(t, readable(t, w.Body.String()), "They were taken out", "- odd: 1", "+ good: 2")
	mustHave(t, w.Body.String(), `<option value="remove" selected>`)
}

func TestRefusedEditKeepsWhatWasTyped(t *testing.T) {
	t.Parallel()
	a := withMessage(t, "").says("POST "+messageAPI+"/retry", refusal{http.StatusConflict, "SYS_DLQ_CONFLICT", "topic elsewhere does not exist", []map[string]any{
		{"field": "reason", "reason": "topic elsewhere does not exist"}, {"field": "class", "reason": "UNKNOWN_TOPIC"},
	}})
	s := site(t, a)
	form := editForm(read(t, aMessage("")), []byte(`{"order_id": "123"}`))
	form.Set("topic", "elsewhere")
	form.Set("reason", "typed reason")
	form.Set("checked", checkMark(t, post(t, s, messagePath+"/edit", form).Body.String()))
	form.Set("do", "send")
	w := post(t, s, messagePath+"/edit", form)
	if w.Code != http.StatusConflict {
		t.Errorf("got status %d, want 409", w.Code)
	}
	mustHave(t, w.Body.String(), "Topic elsewhere does not exist. It is of class UNKNOWN_TOPIC.", `value="elsewhere"`, `value="typed reason"`)
}

func TestBadBase64IsSaid(t *testing.T) {
	t.Parallel()
	a := withMessage(t, someHeaders)
	form := editForm(read(t, aMessage(someHeaders)), []byte(`{"order_id": "123"}`))
	form.Set("payload_as", "base64")
	form.Set("payload", "{}")
	form.Set("key_as", "base64")
	form["header_value"][3] = "!"
	w := post(t, site(t, a), messagePath+"/edit", form)
	if w.Code != http.StatusBadRequest {
		t.Errorf("got status %d, want 400", w.Code)
	}
	mustHave(t, readable(t, w.Body.String()), "payload : must be base64", "key : must be base64", "header bin : must be base64")
}

func TestLargePayloadsAreNotEdited(t *testing.T) {
	t.Parallel()
	a := withMessage(t, `"payload":null,"payload_size":10485760,"payload_omitted":"too_large"`)
	body := get(t, site(t, a), messagePath+"/edit").Body.String()
	mustHave(t, body, "The payload has 10.0 MiB: more than 1 MiB cannot be edited here")
	mustNotHave(t, body, "<textarea")
}

func TestViewerSeesTheEditAndCannotSendIt(t *testing.T) {
	t.Parallel()
	a := newAPI(t).says("GET "+messageAPI, aMessage("")).says("GET /api/v1/session", viewer{Name: "o", Grants: []grant{{"operator", []string{"*"}}}})
	body := get(t, site(t, a), messagePath+"/edit").Body.String()
	mustHave(t, body, "It cannot be sent: needs the role edit on orders.events.v1", "disabled")
	mustNotHave(t, body, `value="check"`)
}

func TestDifferenceIsByLine(t *testing.T) {
	t.Parallel()
	shown := func(lines []diffLine) string {
		var b strings.Builder
		for _, l := range lines {
			b.WriteString(l.Mark + l.Text + "|")
		}
		return b.String()
	}
	for _, c := range []struct {
		was, now, want string
		space          bool
	}{
		{`{"a":1,"b":2}`, `{"a":1,"b":3}`, `…2 lines that stay|`, false},
		{`{"a": 1}`, `{"a":1}`, "", true},
		{"a\nb\nc", "a\nx\nc", "a|-b|+x|c|", false},
		{"a", "", "-a|+|", false},
	} {
		lines, space := differenceOf(c.was, c.now)
		if got := shown(lines); space != c.space || c.want != got && !strings.HasPrefix(c.want, "…") {
			t.Errorf("differenceOf(%q, %q) = %s, %t, want %s, %t", c.was, c.now, got, space, c.want, c.space)
		}
	}
	many := strings.Repeat("a\n", 5000)
	if lines, _ := differenceOf(many+"x", strings.Repeat("b\n", 5000)+"x"); len(lines) != maxDiff || lines[0].Mark != "-" || lines[maxDiff-1] != (diffLine{"…", "4,002 more lines new"}) {
		t.Errorf("got %d lines up to %v, want %d of both sides and how many are left", len(lines), lines[len(lines)-1], maxDiff)
	}
}
