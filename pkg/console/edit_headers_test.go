package console

import (
	"net/http"
	"strings"
	"testing"
)

const oddHeaders = `"headers":[{"key":"version","value":{"encoding":"utf8","data":"2"}},{"key":"","value":{"encoding":"utf8","data":"nameless"}},
	{"key":"two\nlines","value":{"encoding":"utf8","data":"broken"}},{"key":"na\ufffdme","key_base64":"bmH/bWU=","value":{"encoding":"utf8","data":"bytes"}}]`

// browsed is a form as a browser sends what a page shows: it keeps no line break in a
// field of one line.
func browsed(t *testing.T, body string) map[string][]string {
	t.Helper()
	form := map[string][]string{}
	elements, _ := elementsOf(t, body)
	as := ""
	for _, e := range elements {
		switch name, value := e.attributes["name"], e.attributes["value"]; {
		case e.name == "input" && strings.HasPrefix(name, "header_"):
			form[name] = append(form[name], strings.NewReplacer("\n", "", "\r", "").Replace(value))
		case e.name == "select" && name == "header_as":
			as = name
			form[as] = append(form[as], "text")
		case e.name == "select":
			as = ""
		case e.name == "option" && as != "":
			if _, chosen := e.attributes["selected"]; chosen {
				form[as][len(form[as])-1] = value
			}
		}
	}
	return form
}

func TestHeadersThatNobodyTouchesStay(t *testing.T) {
	t.Parallel()
	a := withMessage(t, oddHeaders).says("POST "+messageAPI+"/retry", raw(`{}`))
	s := site(t, a)
	page := get(t, s, messagePath+"/edit").Body.String()
	mustHave(t, readable(t, page), "empty name", `two\nlines`, "1 header has a name that is not text")
	form := editForm(read(t, aMessage(oddHeaders)), []byte(`{"order_id": "123"}`))
	for name, values := range browsed(t, page) {
		form[name] = values
	}
	mustHave(t, post(t, s, messagePath+"/edit", form).Body.String(), "Nothing is changed")

	form["header_value"][0] = "3"
	body := post(t, s, messagePath+"/edit", form).Body.String()
	mustHave(t, readable(t, body), "- version: 2", "+ version: 3", "not kept, since its name is not text")
	mustNotHave(t, readable(t, body), "- : nameless", "- two")
	form.Set("checked", checkMark(t, body))
	form.Set("do", "send")
	if w := post(t, s, messagePath+"/edit", form); w.Code != http.StatusSeeOther {
		t.Fatalf("got status %d: %s", w.Code, w.Body)
	}
	_, bodies := a.wasAsked("POST " + messageAPI + "/retry")
	want := `{"edit":{"headers":[{"key":"version","value_base64":"Mw=="},{"key":"","value_base64":"bmFtZWxlc3M="},{"key":"two\nlines","value_base64":"YnJva2Vu"}]}}`
	if len(bodies) != 1 || bodies[0] != want {
		t.Errorf("got %s, want %s", bodies, want)
	}
}

func TestHeadersLeaveOnlyWhenMeant(t *testing.T) {
	t.Parallel()
	form := editForm(read(t, aMessage(oddHeaders)), []byte(`{"order_id": "123"}`))
	form["header_as"][1] = asRemove
	form["header_name"][0] = " "
	body := readable(t, post(t, site(t, withMessage(t, oddHeaders)), messagePath+"/edit", form).Body.String())
	mustHave(t, body, "- version: 2", "- : nameless", "2 headers are not sent")
}

func TestWhoMayNotEditIsRefused(t *testing.T) {
	t.Parallel()
	a := asViewer(withMessage(t, `"payload":null,"payload_size":5,"payload_omitted":"not_json"`))
	form := editForm(read(t, aMessage("")), []byte(`{"order_id": "123"}`))
	form.Set("payload", "{}")
	w := post(t, site(t, a), messagePath+"/edit", form)
	if w.Code != http.StatusForbidden || len(a.asked) != 2 {
		t.Errorf("got status %d after %d calls, want 403 and only the session and the message asked for", w.Code, len(a.asked))
	}
	mustHave(t, w.Body.String(), "needs the role operator on orders.events.v1")
}

func TestEditOfWhatCannotBeSentNowIsKept(t *testing.T) {
	t.Parallel()
	a := withMessage(t, `"status":"RESOLVED"`).says("POST "+messageAPI+"/retry", raw(`{}`))
	s := site(t, a)
	form := editForm(read(t, aMessage("")), []byte(`{"order_id": "123"}`))
	form.Set("payload", `{"typed": 1}`)
	w := post(t, s, messagePath+"/edit", form)
	if w.Code != http.StatusConflict {
		t.Errorf("got status %d, want 409", w.Code)
	}
	mustHave(t, readable(t, w.Body.String()), "It cannot be sent: is RESOLVED.", `"typed"`)
	mustNotHave(t, w.Body.String(), `id="difference"`)
}

// A form that is sent twice finds the message resolved, and is answered as before.
func TestEditThatIsSentTwiceIsAnsweredByTheAPI(t *testing.T) {
	t.Parallel()
	a := withMessage(t, "").says("POST "+messageAPI+"/retry", raw(`{}`))
	s := site(t, a)
	form := editForm(read(t, aMessage("")), []byte(`{"order_id": "123"}`))
	form.Set("payload", `{"order_id": "124"}`)
	form.Set("checked", checkMark(t, post(t, s, messagePath+"/edit", form).Body.String()))
	form.Set("do", "send")
	for _, status := range []string{"", `"status":"RESOLVED"`} {
		a.says("GET "+messageAPI, aMessage(status))
		if w := post(t, s, messagePath+"/edit", form); w.Code != http.StatusSeeOther {
			t.Errorf("%s: got status %d, want the answer of the API: %s", status, w.Code, w.Body)
		}
	}
}

func TestPayloadThatIsTooLargeIsSaidBeforeItIsSent(t *testing.T) {
	t.Parallel()
	form := editForm(read(t, aMessage("")), []byte(`{"order_id": "123"}`))
	form.Set("payload", strings.Repeat("x", maxEdited+1))
	w := post(t, site(t, withMessage(t, "")), messagePath+"/edit", form)
	if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "must have at most 1 MiB") {
		t.Errorf("got status %d, want 400 and why", w.Code)
	}
}

// A key that is too long to be shown does not become null: an edit sends it unchanged.
func TestEdit_LongKeyIsSentUnchanged(t *testing.T) {
	t.Parallel()
	const long = `"key":null,"key_omitted":"too_large","key_size":41943040`
	s := site(t, withMessage(t, long))
	mustHave(t, get(t, s, messagePath).Body.String(), "too long to be shown", "40.0 MiB")
	mustHave(t, get(t, s, messagePath+"/edit").Body.String(), "key is too long to be edited here")
	m := read(t, aMessage(long))
	if edit, _ := draftOf(m, nil).order(draftOf(m, nil)); len(edit) != 0 {
		t.Errorf("edit = %v, want nothing changed", edit)
	}
}

// A form that had only the first headers of a message would send those in place of
// all.
func TestEdit_FirstHeadersAreNotSentInPlaceOfAll(t *testing.T) {
	t.Parallel()
	m := read(t, raw(`{`+someHeaders+`,"headers_omitted":"too_large"}`))
	if d := draftOf(m, nil); len(d.Headers) != 0 {
		t.Errorf("the form has %d headers, want none", len(d.Headers))
	}
	m.HeadersOmitted = ""
	if d := draftOf(m, nil); len(d.Headers) == 0 {
		t.Error("the form has no headers of a message that was loaded whole")
	}
}

// A page shows so many headers and says that there are others.
func TestMessage_ManyHeaders(t *testing.T) {
	t.Parallel()
	if shown := decodeHeaders(&message{Headers: make([]header, 10_000)}); len(shown) != maxHeaders {
		t.Errorf("%d headers are shown, want %d", len(shown), maxHeaders)
	}
}
