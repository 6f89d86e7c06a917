package console

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

const (
	messageID   = "550e8400-e29b-41d4-a716-446655440000"
	messageAPI  = "/api/v1/dlq/messages/" + messageID
	messagePath = "/messages/" + messageID
)

// aMessage is a message of the API; members replace its own, or are added.
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

// withMessage is an API that has one message without history.
func withMessage(t *testing.T, members string) *anAPI {
	t.Helper()
	return newAPI(t).says("GET "+messageAPI, aMessage(members)).says("GET "+messageAPI+"/history", noHistory)
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
	wantSays(t, "the page", w, http.StatusOK, `href="/groups/650ee99a-d1c9-8faa-8ea2-3653afc6425f"`,
		`href="https://traces.example.com/t/4bf92f3577b34da6a3ce929d0e0e4736"`,
		`action="`+messagePath+`/retry"`, "ff 00")
	mustHave(t, readable(t, w.Body.String()), "com.acme.StockException", "stock is gone for good", "12,431 open", "1 of 3 attempts used",
		"2 library frames", "at com.acme.Stock.reserve(Stock.java:7)", "high from header kafka_dlt-original-topic",
		"in billing", "order-123", "27 00 00 00 1b", "1 h ago", `order_id "123"`)
}

func TestMessageThatWentToTheArchiveIsFoundThere(t *testing.T) {
	t.Parallel()
	gone := refusal{http.StatusNotFound, "SYS_DLQ_NOT_FOUND", "there is no such message", nil}
	a := newAPI(t).says("GET "+messageAPI, gone).says("GET /api/v1/archive/"+messageID, aMessage(`"status":"RESOLVED"`)).
		says("GET /api/v1/archive/"+messageID+"/history", noHistory)
	wantTo(t, "what was archived", get(t, site(t, a), messagePath), "/archive/"+messageID)
	body := get(t, site(t, a), "/archive/"+messageID).Body.String()
	mustHave(t, body, `action="/archive/`+messageID+`/restore"`, `href="/archive/`+messageID+`/payload"`)
	mustNotHave(t, body, messageID+"/retry\"")
	nowhere := newAPI(t).says("GET "+messageAPI, gone).says("GET /api/v1/archive/"+messageID, gone)
	wantSays(t, "what is nowhere", get(t, site(t, nowhere), messagePath), http.StatusNotFound)
}

func TestViewerReadsAndCanPressNothing(t *testing.T) {
	t.Parallel()
	body := get(t, site(t, withMessage(t, "").of(readOnly)), messagePath).Body.String()
	mustHave(t, body, "needs the role operator on orders.events.v1", "needs the role admin on orders.events.v1")
	off := map[string]bool{}
	elements, _ := elementsOf(t, body)
	for _, n := range elements {
		_, disabled := attribute(n, "disabled")
		if _, explained := attribute(n, "aria-describedby"); n.Data == "button" && disabled && explained {
			off[textOf(n)] = true
		}
	}
	want := map[string]bool{"Retry": true, "Edit and retry": true, "Requeue": true, "Set origin": true, "Mark dead": true, "Delete": true}
	if !maps.Equal(off, want) {
		t.Errorf("got buttons %v that cannot be pressed and say why, want %v", off, want)
	}
}

func TestButtonsSayWhyTheyCannotBeUsed(t *testing.T) {
	t.Parallel()
	admin := withRole("admin", "*")
	const (
		onlyDead, isDead = "is not DEAD", "is DEAD: requeue it first"
		spent, has       = "no attempts left: mark it dead, then requeue", "a retry is under way"
		unsettled        = "its last attempt cannot be settled: mark it dead first"
	)
	for name, c := range map[string]struct {
		m    message
		want [6]string // reasons for which retry, requeue, mark dead, delete, edit and set origin are disabled
	}{
		"pending": {message{Status: "PENDING", OriginalTopic: "a", MaxRetries: 3, OriginKnownBy: "header"}, [6]string{
			"", onlyDead, "", "",
			"", "its own headers name the original topic",
		}},
		"spent": {message{Status: "PENDING", OriginalTopic: "a", MaxRetries: 3, RetryCount: 3, OriginKnownBy: "name"}, [6]string{
			spent,
			onlyDead, "", "", spent, "",
		}},
		"unknown": {message{Status: "PENDING", MaxRetries: 3, OriginKnownBy: "none"}, [6]string{
			"its original topic is unknown", onlyDead, "",
			"", "", "",
		}},
		"retrying": {message{Status: "RETRYING", OriginalTopic: "a", MaxRetries: 3}, [6]string{has, onlyDead, "", has, has, "is RETRYING"}},
		"unsettled": {message{Status: "RETRYING", OriginalTopic: "a", MaxRetries: 3, LastErrorClass: "UNKNOWN"}, [6]string{
			"", onlyDead, "",
			unsettled, "", "is RETRYING",
		}},
		"dead": {message{Status: "DEAD", OriginalTopic: "a", MaxRetries: 3, OriginKnownBy: "mapping"}, [6]string{
			isDead, "", "is DEAD", "",
			isDead, "",
		}},
		"resolved": {message{Status: "RESOLVED", OriginalTopic: "a", MaxRetries: 3}, [6]string{
			"is RESOLVED", onlyDead, "is RESOLVED", "",
			"is RESOLVED", "is RESOLVED",
		}},
	} {
		a := actsOf(&c.m, &admin, httptest.NewRequest(http.MethodGet, "/", nil), false)
		got := [...]string{a.Retry.Why, a.Requeue.Why, a.Dead.Why, a.Delete.Why, a.Edit.Why, a.Origin.Why}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestActionsAreSentOnceAndLeadBack(t *testing.T) {
	t.Parallel()
	form := url.Values{"key": {"k1"}, "reason": {"again"}, "accept_duplicate": {"true"}, "original_topic": {" a.b "}}
	for what, want := range map[string]struct{ done, body string }{
		"retry":   {"retried", `{"accept_duplicate":true,"reason":"again"}`},
		"requeue": {"requeued", `{"reason":"again"}`},
		"dead":    {"dead", `{"reason":"again"}`},
		"origin":  {"origin", `{"original_topic":"a.b","reason":"again"}`},
	} {
		a := newAPI(t).says("POST "+messageAPI+"/"+what, raw(`{}`))
		wantDone(t, what, post(t, site(t, a), messagePath+"/"+what, form), want.done, messagePath)
		wantSent(t, a, "POST "+messageAPI+"/"+what, want.body, "console-k1")
	}
	a := newAPI(t).says("POST /api/v1/archive/"+messageID+"/restore", raw(`{}`))
	wantDone(t, "restoring", post(t, site(t, a), "/archive/"+messageID+"/restore", form), "restored", messagePath)
	wantSent(t, a, "POST /api/v1/archive/"+messageID+"/restore", `{"reason":"again"}`, "console-k1")
}

// A deleted message has no page: its form stores the list that led to it.
func TestDeletionLeadsBackToTheList(t *testing.T) {
	t.Parallel()
	a := withMessage(t, "").says("DELETE "+messageAPI, raw(`{"success":true}`))
	body := get(t, site(t, a), messagePath, "Referer", "http://example.com/messages?topic=orders&status=DEAD").Body.String()
	mustHave(t, body, `name="from" value="/messages?topic=orders&amp;status=DEAD"`)
	w := post(t, site(t, a), messagePath+"/delete", url.Values{"reason": {"a & b"}, "from": {"/messages?topic=orders"}})
	wantDone(t, "deleting", w, "deleted", "/messages?topic=orders")
	wantAsked(t, a, "DELETE "+messageAPI, "reason=a+%26+b")
}

func TestRefusedActionIsShownAndKeepsWhatWasTyped(t *testing.T) {
	t.Parallel()
	a := withMessage(t, `"origin_confidence":"name"`).
		says("POST "+messageAPI+"/retry", refusal{http.StatusBadGateway, "SYS_DLQ_PUBLISH_FAILED", "the message could not be published", []map[string]any{
			{"field": "class", "reason": "NETWORK_TIMEOUT"}, {"field": "retry_at", "reason": "2026-02-20T12:05:00.000+00:00"},
		}}).
		says("POST "+messageAPI+"/origin", refusal{http.StatusConflict, "SYS_DLQ_CONFLICT", "a retry has it", nil})
	w := post(t, site(t, a), messagePath+"/retry", url.Values{"key": {"k"}})
	wantSays(t, "the page", w, http.StatusBadGateway)
	mustHave(t, readable(t, w.Body.String()), "The broker refused", "Error class: NETWORK_TIMEOUT. The next attempt is due in 5 min.")
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
	mustHave(t, readable(t, body), "Consumer group billing committed offset 8, past its record: evidence, not proof.", "Its state has changed")
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
		"was retried by olga", "the stock is back", "last to orders.events.v1 partition 1, offset 5")
	mustHave(t, body, `href="/messages/550e8400-e29b-41d4-a716-446655440010"`, `href="/messages/550e8400-e29b-41d4-a716-446655440009"`, `href="/redrives/0198a4c2-7e10-7c3a-9d2f-3b1e5a6c7d8e"`)
	mustNotHave(t, body, "/messages/another")
	if asked := strings.Index(said, "was retried by"); asked > strings.Index(said, "Attempt 1 by") {
		t.Error("got an attempt before it was asked for, want the oldest first")
	}
}

func TestMaskedIsSaidAndUnmaskedByWhoMay(t *testing.T) {
	t.Parallel()
	masked := `"payload":{"card":"***"},"masked":["$.card","header:auth"],"headers":[{"key":"auth","value":{"encoding":"utf8","data":"***"}}]`
	a := withMessage(t, masked)
	mustHave(t, get(t, site(t, a), messagePath).Body.String(), `href="`+messagePath+`?unmask=true"`, "***")
	get(t, site(t, a), messagePath+"?unmask=true")
	wantAsked(t, a, "GET "+messageAPI, "unmask=true")
	body := get(t, site(t, withMessage(t, masked).of(readOnly)), messagePath).Body.String()
	mustNotHave(t, body, "?unmask=true")
	mustHave(t, body, "you need the grant unmask")
}

// The page of a message with an undeclared origin says why, which retries skip it, and both ways to declare it; the
// page of any other message does not.
func TestUndeclaredOriginIsSaidWithTheWaysToDeclareIt(t *testing.T) {
	t.Parallel()
	undeclared := get(t, site(t, withMessage(t, `"undeclared":true,"undeclared_reason":"records of gamma.dlq.v1 may not claim orders.events.v1"`)), messagePath).Body.String()
	mustHave(t, undeclared, `id="undeclared"`, `class="badge undeclared"`, `href="/topics/mapping"`, `action="`+messagePath+`/origin"`)
	mustHave(t, readable(t, undeclared), "records of gamma.dlq.v1 may not claim orders.events.v1", "Redrives and automatic retry skip it")
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

// No text of a message becomes markup.
func TestNothingOfAMessageBecomesMarkup(t *testing.T) {
	t.Parallel()
	const text = `{"encoding":"utf8","data":"HOSTILE"}`
	for _, path := range []string{messagePath, messagePath + "?view=text", messagePath + "?view=pretty", messagePath + "?view=hex", messagePath + "/edit"} {
		a := newAPI(t).of(viewer{Name: hostile, Grants: []grant{{"admin", []string{"*"}}}}).
			says("GET /api/v1/groups/"+hostile, quoted(`{"title":"HOSTILE","link":"javascript:alert(1)"}`)).
			says("GET /api/v1/messages",
				quoted(`{"messages":[{"id":"HOSTILE","parent_id":"`+messageID+`","status":"HOSTILE","error_message":"HOSTILE"}]}`)).
			says("GET "+messageAPI,
				quoted(`{"id":"`+messageID+`","status":"RESOLVED","outcome":"returned","original_topic":"HOSTILE","error_message":"HOSTILE",
				"error_class":"HOSTILE","stack_trace":"HOSTILE\n\tat HOSTILE\n\tat java.HOSTILE","dlq_topic":"HOSTILE","consumer_group":"HOSTILE","dialect":"HOSTILE",
				"outcome_group":"HOSTILE","last_publish_error":"HOSTILE","last_publish_error_class":"HOSTILE","group_id":"HOSTILE","parent_id":"HOSTILE","key":`+text+`,
				"headers":[{"key":"HOSTILE","value":`+text+`},{"key":"traceparent","value":`+text+`}],"payload":{"HOSTILE":["HOSTILE"],"x":"HOSTILE"},
				"payload_size":10,"masked":["HOSTILE"],"hops":[{"dialect":"HOSTILE","topic":"HOSTILE"}],"retry_count":1,"max_retries":3,
				"derived":{"original_topic":{"source":"header","dialect":"HOSTILE","header":"HOSTILE","confidence":"HOSTILE"}}}`)).
			says("GET "+messageAPI+"/history",
				quoted(`{"attempts":[{"number":1,"actor":"HOSTILE","bulk_redrive_id":"HOSTILE","from_status":"HOSTILE","to_status":"HOSTILE",
				"error_class":"HOSTILE","error":"HOSTILE","topic":"HOSTILE","edit":{"target_topic":"HOSTILE","payload_changed":true,
				"payload_patch":[{"op":"HOSTILE","path":"HOSTILE","value":"HOSTILE"}]}}],"changes":[{"action":"HOSTILE","actor":"HOSTILE","reason":"HOSTILE",
				"from":"a","to":"HOSTILE","error":"HOSTILE"}],"lineage":[{"id":"HOSTILE","status":"HOSTILE","outcome":"HOSTILE"}]}`))
		w := get(t, site(t, a), path)
		wantSays(t, path, w, http.StatusOK)
		wantNoMarkup(t, w.Body.String())
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
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Host = "evil'; rm -rf ~ #"
	got := (&Console{needAuth: true}).curl(r, http.MethodPost, "/api/v1/x", `{"reason":"it's"}`)
	want := `curl -sS -X POST -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' -d '{"reason":"it'\''s"}' 'http://evil'\''; rm -rf ~ #/api/v1/x'`
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	mustHave(t, readable(t, get(t, site(t, withMessage(t, "")), messagePath).Body.String()), "curl -sS 'http://example.com"+messageAPI+"'")
}
