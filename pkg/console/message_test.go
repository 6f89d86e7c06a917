package console

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

const (
	messageID      = "550e8400-e29b-41d4-a716-446655440000"
	messageAPI     = "/api/v1/dlq/messages/" + messageID
	messagePath    = "/messages/" + messageID
	messageHostile = `<script>alert(1)</script>"'><img src=x onerror=alert(1)>`
)

// aMessage is a message of the API; members replace those that it has, or are added.
func aMessage(members string) raw {
	base := `"id":"` + messageID + `","original_topic":"orders.events.v1","error_message":"stock is gone","error_class":"com.acme.StockException",
	"status":"PENDING","retry_count":1,"max_retries":3,"created_at":"2026-02-20T11:00:00.000+00:00","dlq_topic":"orders.dlq.v1","dlq_partition":2,
	"dlq_offset":41,"original_partition":0,"original_offset":7,"consumer_group":"billing","dialect":"spring","origin_confidence":"header",
	"key":{"encoding":"utf8","data":"order-123"},"headers":[],"payload":{"order_id": "123"},"payload_size":19,"masked":[],"hops":[],
	"derived":{"original_topic":{"source":"header","dialect":"spring","header":"kafka_dlt-original-topic","occurrence":0,"confidence":"high"}}`
	if members != "" {
		base += "," + members
	}
	return raw("{" + base + "}")
}

const noHistory = raw(`{"attempts":[],"changes":[],"lineage":[]}`)

// withMessage is an API that has one message and nothing of its past.
func withMessage(t *testing.T, members string) *anAPI {
	t.Helper()
	return newAPI(t).says("GET "+messageAPI, aMessage(members)).says("GET "+messageAPI+"/history", noHistory)
}

func asViewer(a *anAPI) *anAPI {
	return a.says("GET /api/v1/session", viewer{Name: "vera", Mode: "token", Grants: []grant{{"viewer", []string{"*"}}}})
}

func mustHave(t *testing.T, body string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(body, w) {
			t.Errorf("got a page without %q:\n%s", w, body)
		}
	}
}

func mustNotHave(t *testing.T, body string, want ...string) {
	t.Helper()
	for _, w := range want {
		if strings.Contains(body, w) {
			t.Errorf("got a page with %q, want it without", w)
		}
	}
}

// element is one of a page, with the text that is in it.
type element struct {
	name, text string
	attributes map[string]string
}

// elementsOf reads a page: its elements, and what one reads of it, with single spaces.
func elementsOf(t *testing.T, body string) (list []*element, said string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(body))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	var open []*element
	var all strings.Builder
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return list, strings.Join(strings.Fields(all.String()), " ")
		}
		if err != nil {
			t.Fatalf("got a page that cannot be read: %v", err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			e := &element{name: token.Name.Local, attributes: map[string]string{}}
			for _, a := range token.Attr {
				e.attributes[a.Name.Local] = a.Value
			}
			list, open = append(list, e), append(open, e)
		case xml.EndElement:
			open = open[:max(0, len(open)-1)]
		case xml.CharData:
			all.Write(token)
			all.WriteByte(' ')
			for _, e := range open {
				e.text += string(token)
			}
		}
	}
}

// readable is what somebody reads of a page.
func readable(t *testing.T, body string) string {
	t.Helper()
	_, said := elementsOf(t, body)
	return said
}

func TestMessagePageTellsWhyItFailed(t *testing.T) {
	t.Parallel()
	a := withMessage(t, `"group_id":"650ee99a-d1c9-8faa-8ea2-3653afc6425f","stack_trace":"com.acme.StockException: stock is gone\n\tat com.acme.Stock.reserve(Stock.java:7)\n\tat org.apache.kafka.A.b(A.java:1)\n\tat java.base/java.lang.Thread.run(Thread.java:1583)\n",
		"headers":[{"key":"traceparent","value":{"encoding":"utf8","data":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}},{"key":"bin","value":{"encoding":"base64","data":"/wA="}},{"key":"none","value":null},
		{"key":"partition","value":{"encoding":"utf8","data":"\u0000\u0000\u0000\u001b"}}]`)
	a.says("GET /api/v1/groups/650ee99a-d1c9-8faa-8ea2-3653afc6425f", raw(`{"id":"650ee99a-d1c9-8faa-8ea2-3653afc6425f","title":"stock is gone for good","open":12431}`))
	cfg := DefaultConfig()
	cfg.TraceURL = "https://traces.example.com/t/{trace_id}"
	w := get(t, siteWith(t, cfg, a), messagePath)
	if w.Code != http.StatusOK {
		t.Fatalf("got status %d, want 200: %s", w.Code, w.Body)
	}
	mustHave(t, w.Body.String(), `href="/groups/650ee99a-d1c9-8faa-8ea2-3653afc6425f"`, `href="https://traces.example.com/t/4bf92f3577b34da6a3ce929d0e0e4736"`,
		`action="`+messagePath+`/retry"`, "ff 00")
	mustHave(t, readable(t, w.Body.String()), "com.acme.StockException", "stock is gone for good", "12,431 open", "1 of 3 attempts used",
		"2 frames of frameworks", "at com.acme.Stock.reserve(Stock.java:7)", "high from header kafka_dlt-original-topic",
		"in billing", "order-123", "27 00 00 00 1b", "1 h ago", `order_id "123"`)
}

func TestMessageThatWentToTheArchiveIsFoundThere(t *testing.T) {
	t.Parallel()
	gone := refusal{http.StatusNotFound, "SYS_DLQ_NOT_FOUND", "there is no such message", nil}
	a := newAPI(t).says("GET "+messageAPI, gone).says("GET /api/v1/archive/"+messageID, aMessage(`"status":"RESOLVED"`)).
		says("GET /api/v1/archive/"+messageID+"/history", noHistory)
	if got := get(t, site(t, a), messagePath).Header().Get("Location"); got != "/archive/"+messageID {
		t.Errorf("got %q, want to be led to the archive", got)
	}
	w := get(t, site(t, a), "/archive/"+messageID)
	mustHave(t, w.Body.String(), `action="/archive/`+messageID+`/restore"`, `href="/archive/`+messageID+`/payload"`)
	mustNotHave(t, w.Body.String(), messageID+"/retry\"")

	nowhere := newAPI(t).says("GET "+messageAPI, gone).says("GET /api/v1/archive/"+messageID, gone)
	if got := get(t, site(t, nowhere), messagePath).Code; got != http.StatusNotFound {
		t.Errorf("got status %d for what is nowhere, want 404", got)
	}
}

func TestViewerReadsAndCanPressNothing(t *testing.T) {
	t.Parallel()
	a := asViewer(withMessage(t, ""))
	body := get(t, site(t, a), messagePath).Body.String()
	mustHave(t, body, "needs the role operator on orders.events.v1", "needs the role admin on orders.events.v1")
	all := []string{"Retry", "Edit and retry", "Requeue", "Set origin", "Mark dead", "Delete"}
	buttons := 0
	elements, _ := elementsOf(t, body)
	for _, e := range elements {
		if e.name != "button" || !slices.Contains(all, e.text) {
			continue
		}
		_, disabled := e.attributes["disabled"]
		if buttons++; !disabled || e.attributes["aria-describedby"] == "" {
			t.Errorf("got a button %q that can be pressed, or without its reason", e.text)
		}
	}
	if buttons != len(all) {
		t.Errorf("got %d buttons, want all %d to be seen", buttons, len(all))
	}
}

func TestButtonsSayWhyTheyCannotBeUsed(t *testing.T) {
	t.Parallel()
	admin := &viewer{Grants: []grant{{"admin", []string{"*"}}}}
	get, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		m                          message
		retry, requeue, dead, wipe string
		edit, origin               string
	}{
		"pending":   {message{Status: "PENDING", OriginalTopic: "a", MaxRetries: 3, OriginKnownBy: "header"}, "", "only what is DEAD", "", "", "", "its own headers name it"},
		"spent":     {message{Status: "PENDING", OriginalTopic: "a", MaxRetries: 3, RetryCount: 3, OriginKnownBy: "name"}, "no attempts left: mark it dead, then requeue", "only what is DEAD", "", "", "no attempts left: mark it dead, then requeue", ""},
		"unknown":   {message{Status: "PENDING", MaxRetries: 3, OriginKnownBy: "none"}, "nobody knows where it belongs", "only what is DEAD", "", "", "", ""},
		"retrying":  {message{Status: "RETRYING", OriginalTopic: "a", MaxRetries: 3}, "a retry has it", "only what is DEAD", "", "a retry has it", "a retry has it", "is RETRYING"},
		"unsettled": {message{Status: "RETRYING", OriginalTopic: "a", MaxRetries: 3, LastErrorClass: "UNKNOWN"}, "", "only what is DEAD", "", "its last attempt cannot be settled: mark it dead first", "", "is RETRYING"},
		"dead":      {message{Status: "DEAD", OriginalTopic: "a", MaxRetries: 3, OriginKnownBy: "mapping"}, "is DEAD: requeue it first", "", "is DEAD", "", "is DEAD: requeue it first", ""},
		"resolved":  {message{Status: "RESOLVED", OriginalTopic: "a", MaxRetries: 3}, "is RESOLVED", "only what is DEAD", "is RESOLVED", "", "is RESOLVED", "is RESOLVED"},
	} {
		a := actsOf(&c.m, admin, get, false)
		got := []string{a.Retry.Why, a.Requeue.Why, a.Dead.Why, a.Delete.Why, a.Edit.Why, a.Origin.Why}
		want := []string{c.retry, c.requeue, c.dead, c.wipe, c.edit, c.origin}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestActionsAreSentOnceAndLeadBack(t *testing.T) {
	t.Parallel()
	for what, want := range map[string]struct{ done, body string }{
		"retry":   {"retried", `{"accept_duplicate":true,"reason":"again"}`},
		"requeue": {"requeued", `{"reason":"again"}`},
		"dead":    {"dead", `{"reason":"again"}`},
		"origin":  {"origin", `{"original_topic":"a.b","reason":"again"}`},
	} {
		a := newAPI(t).says("POST "+messageAPI+"/"+what, raw(`{}`))
		w := post(t, site(t, a), messagePath+"/"+what, url.Values{"key": {"k1"}, "reason": {"again"}, "accept_duplicate": {"true"}, "original_topic": {" a.b "}})
		wantDone(t, what, w, want.done, messagePath)
		requests, bodies := a.wasAsked("POST " + messageAPI + "/" + what)
		if len(requests) != 1 || bodies[0] != want.body || requests[0].Header.Get("Idempotency-Key") != "console-k1" {
			t.Errorf("%s: got %q, want %s once, with the form's key", what, bodies, want.body)
		}
	}
}

func TestDeletedMessageHasNoPage(t *testing.T) {
	t.Parallel()
	a := newAPI(t).says("DELETE "+messageAPI, raw(`{"success":true}`))
	w := post(t, site(t, a), messagePath+"/delete", url.Values{"reason": {"a & b"}, "from": {"/messages?topic=orders"}})
	wantDone(t, "deleting", w, "deleted", "/messages?topic=orders")
	requests, _ := a.wasAsked("DELETE " + messageAPI)
	if len(requests) != 1 || requests[0].URL.Query().Get("reason") != "a & b" {
		t.Errorf("got %d requests, want one with the reason", len(requests))
	}
}

func TestDeletionKnowsTheListThatLedToIt(t *testing.T) {
	t.Parallel()
	v := newVisitor(t, site(t, withMessage(t, "")))
	v.header["Referer"] = "http://example.com/messages?topic=orders&status=DEAD"
	body := v.get(messagePath).Body.String()
	if want := `name="from" value="/messages?topic=orders&amp;status=DEAD"`; !strings.Contains(body, want) {
		t.Errorf("want %s in the page", want)
	}
}

func TestRestoredMessageIsShownAmongTheLive(t *testing.T) {
	t.Parallel()
	a := newAPI(t).says("POST /api/v1/archive/"+messageID+"/restore", raw(`{}`))
	w := post(t, site(t, a), "/archive/"+messageID+"/restore", url.Values{"reason": {"asked for"}})
	wantDone(t, "restoring", w, "restored", messagePath)
}

func TestRefusedActionIsShownAndKeepsWhatWasTyped(t *testing.T) {
	t.Parallel()
	a := withMessage(t, `"origin_confidence":"name"`).
		says("POST "+messageAPI+"/retry", refusal{http.StatusBadGateway, "SYS_DLQ_PUBLISH_FAILED", "the message could not be published", []map[string]any{
			{"field": "class", "reason": "NETWORK_TIMEOUT"}, {"field": "retry_at", "reason": "2026-02-20T12:05:00.000+00:00"},
		}}).
		says("POST "+messageAPI+"/origin", refusal{http.StatusConflict, "SYS_DLQ_CONFLICT", "a retry has it", nil})
	w := post(t, site(t, a), messagePath+"/retry", url.Values{"key": {"k"}})
	if w.Code != http.StatusBadGateway {
		t.Errorf("got status %d, want 502", w.Code)
	}
	mustHave(t, readable(t, w.Body.String()), "The broker refused", "It is of class NETWORK_TIMEOUT. Another attempt is due in 5 min.")
	w = post(t, site(t, a), messagePath+"/origin", url.Values{"original_topic": {"typed.topic"}, "reason": {`typed "reason"`}})
	mustHave(t, w.Body.String(), `value="typed.topic"`, `value="typed &#34;reason&#34;"`, "A retry has it.", `<details class="act" name="act" open>`)
}

func TestOutcomeIsWatchedUntilItIsFinal(t *testing.T) {
	t.Parallel()
	for members, live := range map[string]bool{
		`"status":"RETRYING"`: true,
		`"status":"RETRYING","last_publish_error_class":"UNKNOWN"`:                              false,
		`"status":"RESOLVED","outcome":"published","finished_at":"2026-02-20T11:59:00Z"`:        true,
		`"status":"RESOLVED","outcome":"published","finished_at":"2026-02-20T10:00:00Z"`:        false,
		`"status":"RESOLVED","outcome":"consumed","outcome_group":"billing","outcome_offset":8`: false,
		`"status":"PENDING"`: false,
	} {
		body := get(t, site(t, withMessage(t, members)), messagePath+"?unmask=true&view=hex").Body.String()
		if got := strings.Contains(body, `hx-trigger="every 3s"`); got != live {
			t.Errorf("%s: got live %t, want %t", members, got, live)
		}
		if live {
			mustNotHave(t, body[strings.Index(body, "hx-get"):strings.Index(body, "hx-trigger")], "unmask", "hex")
		}
	}
	body := get(t, site(t, withMessage(t, `"status":"RESOLVED","outcome":"consumed","outcome_group":"billing","outcome_offset":8`)), messagePath+"?seen=RETRYING").Body.String()
	mustHave(t, readable(t, body), "Consumer group billing committed offset 8 behind it: evidence, not proof.", "Its state has changed")
}

func TestPastIsOneTimeLine(t *testing.T) {
	t.Parallel()
	a := withMessage(t, `"status":"RESOLVED","outcome":"returned"`).says("GET "+messageAPI+"/history", raw(`{"attempts":[
		{"number":1,"redrive_id":"a","actor":"olga","started_at":"2026-02-20T11:10:00Z","ended_at":"2026-02-20T11:10:01Z","from_status":"RETRYING","to_status":"PENDING","error_class":"NETWORK_TIMEOUT","error":"slow"},
		{"number":2,"redrive_id":"b","bulk_redrive_id":"0198a4c2-7e10-7c3a-9d2f-3b1e5a6c7d8e","actor":"olga","ended_at":"2026-02-20T11:20:00Z","from_status":"RETRYING","to_status":"RESOLVED","topic":"orders.events.v1","partition":3,"offset":7,
		 "edit":{"payload_changed":true,"payload_patch":[{"op":"replace","path":"/order_id","value":"124"}],"key_changed":true}}],
		"changes":[{"at":"2026-02-20T11:09:59Z","action":"retry","actor":"olga","reason":"the stock is back"},{"at":"2026-02-20T11:10:01Z","action":"attempt","actor":"olga","from":"RETRYING","to":"PENDING"}],
		"lineage":[{"id":"550e8400-e29b-41d4-a716-446655440009","status":"RESOLVED","outcome":"returned","created_at":"2026-02-20T09:00:00Z","attempts":[{"topic":"orders.events.v1","partition":1,"offset":5}]}]}`)).
		says("GET /api/v1/messages", raw(`{"messages":[{"id":"550e8400-e29b-41d4-a716-446655440010","parent_id":"`+messageID+`","status":"DEAD","error_message":"again"},{"id":"another","parent_id":"x"}]}`))
	body := get(t, site(t, a), messagePath).Body.String()
	said := readable(t, body)
	mustHave(t, said, "Attempt 1 by olga", "NETWORK_TIMEOUT slow", "Attempt 2 by olga in a redrive", "partition 3, offset 7", "replace /order_id = \"124\"", "another key",
		"was asked to be sent back by olga", "the stock is back", "last to orders.events.v1 partition 1, offset 5")
	mustHave(t, body, `href="/messages/550e8400-e29b-41d4-a716-446655440010"`, `href="/messages/550e8400-e29b-41d4-a716-446655440009"`, `href="/redrives/0198a4c2-7e10-7c3a-9d2f-3b1e5a6c7d8e"`)
	mustNotHave(t, body, "/messages/another")
	if asked := strings.Index(said, "was asked"); asked > strings.Index(said, "Attempt 1 by") {
		t.Error("got an attempt before it was asked for, want the oldest first")
	}
}

func TestMaskedIsSaidAndUnmaskedByWhoMay(t *testing.T) {
	t.Parallel()
	masked := `"payload":{"card":"***"},"masked":["$.card","header:auth"],"headers":[{"key":"auth","value":{"encoding":"utf8","data":"***"}}]`
	a := withMessage(t, masked)
	mustHave(t, get(t, site(t, a), messagePath).Body.String(), `href="`+messagePath+`?unmask=true"`, "***")
	get(t, site(t, a), messagePath+"?unmask=true")
	requests, _ := a.wasAsked("GET " + messageAPI)
	if got := requests[len(requests)-1].URL.Query().Get("unmask"); got != "true" {
		t.Errorf("got unmask=%q asked of the API, want true", got)
	}
	body := get(t, site(t, asViewer(withMessage(t, masked))), messagePath).Body.String()
	mustNotHave(t, body, "?unmask=true")
	mustHave(t, body, "it needs the grant unmask")
}

// The page of a message with an undeclared origin says why, what leaves it out, and both
// ways to declare it; of every other message it says nothing.
func TestUndeclaredOriginIsSaidWithTheWaysToDeclareIt(t *testing.T) {
	t.Parallel()
	undeclared := get(t, site(t, withMessage(t, `"undeclared":true,"undeclared_reason":"records of gamma.dlq.v1 may not claim orders.events.v1"`)), messagePath).Body.String()
	mustHave(t, undeclared, `id="undeclared"`, `class="badge undeclared"`, `href="/topics/mapping"`, `action="`+messagePath+`/origin"`)
	mustHave(t, readable(t, undeclared), "records of gamma.dlq.v1 may not claim orders.events.v1", "Redrives and automatic retry leave it out")
	mustNotHave(t, get(t, site(t, withMessage(t, `"undeclared":false,"undeclared_reason":null`)), messagePath).Body.String(), `id="undeclared"`, "badge undeclared")
}

func TestPayloadIsDownloadedAsItIs(t *testing.T) {
	t.Parallel()
	value := bytes.Repeat([]byte{0, 255, '<'}, 1<<20)
	a := newAPI(t).says("GET "+messageAPI+"/payload", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Disposition", `attachment; filename="x.bin"`)
		_, _ = w.Write(value)
	}))
	w := get(t, site(t, a), messagePath+"/payload")
	if got, _ := io.ReadAll(w.Body); !bytes.Equal(got, value) || w.Header().Get("Content-Disposition") == "" || w.Header().Get("Content-Type") != "application/octet-stream" {
		t.Errorf("got %d bytes as %q, want all as a download", len(got), w.Header().Get("Content-Type"))
	}
}

// everythingHostile is a message with markup in every text that somebody else writes.
func everythingHostile() *anAPI {
	h := strings.ReplaceAll(strings.ReplaceAll(messageHostile, `\`, `\\`), `"`, `\"`)
	b := `{"encoding":"utf8","data":"` + h + `"}`
	a := &anAPI{answers: map[string]any{}}
	a.says("GET "+messageAPI, raw(`{"id":"`+messageID+`","status":"RESOLVED","outcome":"returned","original_topic":"`+h+`","error_message":"`+h+`","error_class":"`+h+`",
		"stack_trace":"`+h+`\n\tat `+h+`\n\tat java.`+h+`","dlq_topic":"`+h+`","consumer_group":"`+h+`","dialect":"`+h+`","outcome_group":"`+h+`","last_publish_error":"`+h+`",
		"last_publish_error_class":"`+h+`","group_id":"`+h+`","parent_id":"`+h+`","key":`+b+`,"headers":[{"key":"`+h+`","value":`+b+`},{"key":"traceparent","value":`+b+`}],
		"payload":{"`+h+`":["`+h+`"],"x":"`+h+`"},"payload_size":10,"masked":["`+h+`"],"hops":[{"dialect":"`+h+`","topic":"`+h+`"}],"retry_count":1,"max_retries":3,
		"derived":{"original_topic":{"source":"header","dialect":"`+h+`","header":"`+h+`","confidence":"`+h+`"}}}`))
	a.says("GET "+messageAPI+"/history", raw(`{"attempts":[{"number":1,"actor":"`+h+`","bulk_redrive_id":"`+h+`","from_status":"`+h+`","to_status":"`+h+`","error_class":"`+h+`","error":"`+h+`","topic":"`+h+`",
		"edit":{"target_topic":"`+h+`","payload_changed":true,"payload_patch":[{"op":"`+h+`","path":"`+h+`","value":"`+h+`"}]}}],
		"changes":[{"action":"`+h+`","actor":"`+h+`","reason":"`+h+`","from":"a","to":"`+h+`","error":"`+h+`"}],
		"lineage":[{"id":"`+h+`","status":"`+h+`","outcome":"`+h+`"}]}`))
	a.says("GET /api/v1/messages", raw(`{"messages":[{"id":"`+h+`","parent_id":"`+messageID+`","status":"`+h+`","error_message":"`+h+`"}]}`))
	return a
}

func TestNothingOfAMessageBecomesMarkup(t *testing.T) {
	t.Parallel()
	for _, path := range []string{messagePath, messagePath + "?view=text", messagePath + "?view=pretty", messagePath + "?view=hex", messagePath + "/edit"} {
		a := everythingHostile()
		a.t = t
		a.says("GET /api/v1/session", viewer{Name: messageHostile, Grants: []grant{{"admin", []string{"*"}}}})
		a.answers["GET /api/v1/groups/"+messageHostile] = raw(`{"title":"` + strings.ReplaceAll(messageHostile, `"`, `\"`) + `","link":"javascript:alert(1)"}`)
		w := get(t, site(t, a), path)
		if w.Code != http.StatusOK {
			t.Fatalf("%s: got status %d, want 200: %s", path, w.Code, w.Body)
		}
		messageHarmless(t, path, w.Body.String())
	}
}

// messageHarmless fails when a page has markup that only the corpus can have brought.
func messageHarmless(t *testing.T, path, body string) {
	t.Helper()
	elements, _ := elementsOf(t, body)
	for _, e := range elements {
		if _, linked := e.attributes["src"]; e.name == "img" || e.name == "script" && !linked {
			t.Errorf("%s: got a <%s> out of what a message says", path, e.name)
		}
		for name, v := range e.attributes {
			if strings.HasPrefix(name, "on") || name == "style" || strings.HasPrefix(strings.TrimSpace(v), "javascript:") {
				t.Errorf("%s: got %s=%q", path, name, v)
			}
		}
	}
}

func TestTextThatTurnsAroundIsEscaped(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"a\u202eb": `a\u202eb`, "x\x00y": `x\u0000y`, "a\tb\nc": "a\tb\nc", "ü👩‍🚀": "ü👩‍🚀", "z\u200b": `z\u200b`, "\U000e0041": `\U000e0041`,
	} {
		if got := visible(in); got != want {
			t.Errorf("visible(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestCommandsAreQuotedForAShell(t *testing.T) {
	t.Parallel()
	a := withMessage(t, "")
	c := &Console{needAuth: true}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "evil'; rm -rf ~ #"
	got := c.curl(r, http.MethodPost, "/api/v1/x", `{"reason":"it's"}`)
	want := `curl -sS -X POST -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' -d '{"reason":"it'\''s"}' 'http://evil'\''; rm -rf ~ #/api/v1/x'`
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	mustHave(t, readable(t, get(t, site(t, a), messagePath).Body.String()), "curl -sS 'http://example.com"+messageAPI+"'")
}
