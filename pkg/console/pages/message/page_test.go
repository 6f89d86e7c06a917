package message_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/pkg/console"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/consoletest"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/session"
	"github.com/dlq-manager/dlq-manager/pkg/console/pages/message"
)

func TestMessagePageTellsWhyItFailed(t *testing.T) {
	t.Parallel()
	a := consoletest.WithMessage(t, `"group_id":"650ee99a-d1c9-8faa-8ea2-3653afc6425f","stack_trace":"com.acme.StockException: stock is gone\n\tat com.acme.Stock.reserve(Stock.java:7)\n\tat org.apache.kafka.A.b(A.java:1)\n\tat java.base/java.lang.Thread.run(Thread.java:1583)\n",
		"headers":[{"key":"traceparent","value":{"encoding":"utf8","data":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}},{"key":"bin","value":{"encoding":"base64","data":"/wA="}},{"key":"none","value":null},
		{"key":"partition","value":{"encoding":"utf8","data":"\u0000\u0000\u0000\u001b"}}]`)
	a.Says("GET /api/v1/groups/650ee99a-d1c9-8faa-8ea2-3653afc6425f", consoletest.Raw(`{"id":"650ee99a-d1c9-8faa-8ea2-3653afc6425f","title":"stock is gone for good","counts":{"PENDING":12430,"RETRYING":1,"DEAD":4}}`))
	cfg := console.DefaultConfig()
	cfg.TraceURL = "https://traces.example.com/t/{trace_id}"
	w := consoletest.Get(t, consoletest.SiteWith(t, cfg, a), consoletest.MessagePath)
	consoletest.WantSays(t, "the page", w, http.StatusOK, `href="/groups/650ee99a-d1c9-8faa-8ea2-3653afc6425f"`,
		`href="https://traces.example.com/t/4bf92f3577b34da6a3ce929d0e0e4736"`,
		`action="`+consoletest.MessagePath+`/retry"`, "ff 00")
	consoletest.MustHave(t, consoletest.Readable(t, w.Body.String()), "com.acme.StockException", "stock is gone for good", "12,431 open", "1 of 3 attempts used",
		"2 library frames", "at com.acme.Stock.reserve(Stock.java:7)", "high from header kafka_dlt-original-topic",
		"Consumer group billing", "order-123", "27 00 00 00 1b", "1 h ago", `order_id "123"`)
}

func TestMessageThatWentToTheArchiveIsFoundThere(t *testing.T) {
	t.Parallel()
	gone := consoletest.Refuse(http.StatusNotFound, "SYS_DLQ_NOT_FOUND", "there is no such message", nil)
	a := consoletest.NewAPI(t).Says("GET "+consoletest.MessageAPI, gone).Says("GET /api/v1/archive/"+consoletest.MessageID, consoletest.AMessage(`"status":"RESOLVED"`)).
		Says("GET /api/v1/archive/"+consoletest.MessageID+"/history", consoletest.NoHistory)
	consoletest.WantTo(t, "what was archived", consoletest.Get(t, consoletest.Site(t, a), consoletest.MessagePath), "/archive/"+consoletest.MessageID)
	body := consoletest.Get(t, consoletest.Site(t, a), "/archive/"+consoletest.MessageID).Body.String()
	consoletest.MustHave(t, body, `action="/archive/`+consoletest.MessageID+`/restore"`, `href="/archive/`+consoletest.MessageID+`/payload"`)
	consoletest.MustNotHave(t, body, consoletest.MessageID+"/retry\"")
	nowhere := consoletest.NewAPI(t).Says("GET "+consoletest.MessageAPI, gone).Says("GET /api/v1/archive/"+consoletest.MessageID, gone)
	consoletest.WantSays(t, "what is nowhere", consoletest.Get(t, consoletest.Site(t, nowhere), consoletest.MessagePath), http.StatusNotFound)
}

func TestActionsThatAreNotPossibleAreOneLineThatSaysWhy(t *testing.T) {
	t.Parallel()
	for _, c := range map[string]struct {
		members string
		viewer  session.Viewer
		want    string
	}{
		"viewer": {
			"", consoletest.ReadOnly,
			"Not possible now: retry, edit and retry, requeue, set origin, mark dead (needs the role operator on orders.events.v1); delete (needs the role admin on orders.events.v1).",
		},
		"resolved": {
			`"status":"RESOLVED"`, consoletest.WithRole("admin", "*"),
			"Not possible now: retry, edit and retry, set origin, mark dead (is RESOLVED); requeue (is not DEAD).",
		},
	} {
		body := consoletest.Get(t, consoletest.Site(t, consoletest.WithMessage(t, c.members).As(c.viewer)), consoletest.MessagePath).Body.String()
		consoletest.MustHave(t, consoletest.Readable(t, body), c.want)
		consoletest.MustNotHave(t, body, `action="`+consoletest.MessagePath+`/retry"`, " disabled")
	}
}

func TestHeadingIsTheCauseAndStaysShort(t *testing.T) {
	t.Parallel()
	long := "it failed " + strings.Repeat("again and ", 200) + "for order-4711"
	body := consoletest.Get(t, consoletest.Site(t, consoletest.WithMessage(t, `"error_message":"Listener failed; `+long+`","cause":"`+long+`"`)), consoletest.MessagePath).Body.String()
	elements, _ := consoletest.Elements(t, body)
	heading := ""
	for _, n := range elements {
		if n.Data == "h1" {
			heading = consoletest.TextOf(n)
		}
	}
	if len(heading) > 200 || !strings.HasPrefix(heading, "it failed") || !strings.HasSuffix(heading, "for order-4711") {
		t.Errorf("got the heading %q, want the beginning and the end of the cause", heading)
	}
	consoletest.MustHave(t, body, "Show the whole error", "Listener failed; it failed")
	consoletest.MustNotHave(t, consoletest.Get(t, consoletest.Site(t, consoletest.WithMessage(t, "")), consoletest.MessagePath).Body.String(), "Show the whole error")
}

// The page of a return says that the message failed again after a retry. It links to the message that was sent if that
// is archived, and says so if it is not found.
func TestReturnSaysThatItCameBackAndWhereItsParentIs(t *testing.T) {
	t.Parallel()
	const parent = "550e8400-e29b-41d4-a716-446655440009"
	archived := consoletest.WithMessage(t, `"parent_id":"`+parent+`"`).Says("GET /api/v1/archive/"+parent, consoletest.Raw(`{"id":"`+parent+`"}`))
	body := consoletest.Get(t, consoletest.Site(t, archived), consoletest.MessagePath).Body.String()
	consoletest.MustHave(t, body, `href="/archive/`+parent+`"`)
	consoletest.MustHave(t, consoletest.Readable(t, body), "It already failed again once after it was sent back: 55440009 archived")
	gone := consoletest.WithMessage(t, `"parent_id":"`+parent+`"`).Says("GET /api/v1/archive/"+parent, consoletest.Refuse(http.StatusNotFound, "SYS_DLQ_NOT_FOUND", "there is no such message", nil))
	body = consoletest.Get(t, consoletest.Site(t, gone), consoletest.MessagePath).Body.String()
	consoletest.MustHave(t, consoletest.Readable(t, body), "55440009 not found")
	consoletest.MustNotHave(t, body, `href="/messages/`+parent+`"`)
}

func TestButtonsSayWhyTheyCannotBeUsed(t *testing.T) {
	t.Parallel()
	admin := consoletest.WithRole("admin", "*")
	const (
		onlyDead, isDead = "is not DEAD", "is DEAD: requeue it first"
		spent, has       = "no attempts left: mark it dead, then requeue", "a retry is under way"
		unsettled        = "its last attempt cannot be settled: mark it dead first"
	)
	for name, c := range map[string]struct {
		m    api.Message
		want [6]string // reasons for which retry, requeue, mark dead, delete, edit and set origin are disabled
	}{
		"pending": {api.Message{Status: "PENDING", OriginalTopic: "a", MaxRetries: 3, OriginKnownBy: "header"}, [6]string{
			"", onlyDead, "", "",
			"", "its own headers name the original topic: redirect the topic instead",
		}},
		"missing": {api.Message{Status: "PENDING", OriginalTopic: "a", MaxRetries: 3, OriginKnownBy: "name", Target: &api.Target{Topic: "a", Exists: new(false)}}, [6]string{
			"topic a does not exist", onlyDead, "", "", "", "",
		}},
		"spent": {api.Message{Status: "PENDING", OriginalTopic: "a", MaxRetries: 3, RetryCount: 3, OriginKnownBy: "name"}, [6]string{
			spent,
			onlyDead, "", "", spent, "",
		}},
		"unknown": {api.Message{Status: "PENDING", MaxRetries: 3, OriginKnownBy: "none"}, [6]string{
			"its original topic is unknown", onlyDead, "",
			"", "", "",
		}},
		"retrying": {api.Message{Status: "RETRYING", OriginalTopic: "a", MaxRetries: 3}, [6]string{has, onlyDead, "", has, has, "is RETRYING"}},
		"unsettled": {api.Message{Status: "RETRYING", OriginalTopic: "a", MaxRetries: 3, LastErrorClass: "UNKNOWN"}, [6]string{
			"", onlyDead, "",
			unsettled, "", "is RETRYING",
		}},
		"dead": {api.Message{Status: "DEAD", OriginalTopic: "a", MaxRetries: 3, OriginKnownBy: "mapping"}, [6]string{
			isDead, "", "is DEAD", "",
			isDead, "",
		}},
		"resolved": {api.Message{Status: "RESOLVED", OriginalTopic: "a", MaxRetries: 3}, [6]string{
			"is RESOLVED", onlyDead, "is RESOLVED", "",
			"is RESOLVED", "is RESOLVED",
		}},
	} {
		a := message.ActsOf(&c.m, &admin, httptest.NewRequest(http.MethodGet, "/", nil), false)
		got := [...]string{a.Retry.Why, a.Requeue.Why, a.Dead.Why, a.Delete.Why, a.Edit.Why, a.Origin.Why}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestTopicThatDoesNotExistHasWaysOut(t *testing.T) {
	t.Parallel()
	for target, want := range map[string][]string{
		`{"topic": "orders.events.v1", "redirected": false, "exists": false}`: {
			"It cannot be sent back: topic orders.events.v1 does not exist.", `href="/topics/redirects?topic=orders.events.v1"`, `/edit"`,
			"retry (topic orders.events.v1 does not exist)",
		},
		`{"topic": "moved", "redirected": true, "exists": false}`: {"topic moved does not exist", "change the redirect"},
		`{"topic": "moved", "redirected": true, "exists": true}`:  {"Waiting to be sent to moved, to which orders.events.v1 is redirected.", ">Retry</button>"},
		`{"topic": "orders.events.v1", "redirected": false, "exists": null}`: {
			"Waiting to be sent back to orders.events.v1.", ">Retry</button>",
		},
	} {
		a := consoletest.WithMessage(t, `"target": `+target)
		body := consoletest.Get(t, consoletest.Site(t, a), consoletest.MessagePath).Body.String()
		consoletest.MustHave(t, body, want...)
		if strings.Contains(target, "false}") && strings.Contains(body, ">Retry</button>") {
			t.Errorf("%s: Retry is offered", target)
		}
	}
}

// A message whose value looks like an envelope says so, and is retried only when the user ticks that it is sent.
func TestAnEnvelopeIsShown(t *testing.T) {
	t.Parallel()
	const box = `name="accept_envelope" value="true" required`
	a := consoletest.WithMessage(t, `"envelope": {"members": ["originalTopic", "<b>", "error"]}`)
	consoletest.MustHave(t, consoletest.Get(t, consoletest.Site(t, a), consoletest.MessagePath).Body.String(),
		"looks like an envelope", "<code>originalTopic</code>, <code>&lt;b&gt;</code>, <code>error</code>", box)
	body := consoletest.Get(t, consoletest.Site(t, consoletest.WithMessage(t, `"envelope": null`)), consoletest.MessagePath).Body.String()
	consoletest.MustNotHave(t, body, "nvelope")
}

func TestActionsAreSentOnceAndLeadBack(t *testing.T) {
	t.Parallel()
	form := url.Values{"key": {"k1"}, "reason": {"again"}, "accept_duplicate": {"true"}, "accept_envelope": {"true"}, "original_topic": {" a.b "}}
	for what, want := range map[string]struct{ done, body string }{
		"retry":   {"retried", `{"accept_duplicate":true,"accept_envelope":true,"reason":"again"}`},
		"requeue": {"requeued", `{"reason":"again"}`},
		"dead":    {"dead", `{"reason":"again"}`},
		"origin":  {"origin", `{"original_topic":"a.b","reason":"again"}`},
	} {
		a := consoletest.NewAPI(t).Says("POST "+consoletest.MessageAPI+"/"+what, consoletest.Raw(`{}`))
		consoletest.WantDone(t, what, consoletest.Post(t, consoletest.Site(t, a), consoletest.MessagePath+"/"+what, form), want.done, consoletest.MessagePath)
		consoletest.WantSent(t, a, "POST "+consoletest.MessageAPI+"/"+what, want.body, "console-k1")
	}
	a := consoletest.NewAPI(t).Says("POST /api/v1/archive/"+consoletest.MessageID+"/restore", consoletest.Raw(`{}`))
	consoletest.WantDone(t, "restoring", consoletest.Post(t, consoletest.Site(t, a), "/archive/"+consoletest.MessageID+"/restore", form), "restored", consoletest.MessagePath)
	consoletest.WantSent(t, a, "POST /api/v1/archive/"+consoletest.MessageID+"/restore", `{"reason":"again"}`, "console-k1")
}

// A deleted message has no page, so the form that deletes it has the address of the list that led to the page.
func TestDeletionLeadsBackToTheList(t *testing.T) {
	t.Parallel()
	a := consoletest.WithMessage(t, "").Says("DELETE "+consoletest.MessageAPI, consoletest.Raw(`{"success":true}`))
	body := consoletest.Get(t, consoletest.Site(t, a), consoletest.MessagePath, "Referer", "http://example.com/messages?topic=orders&status=DEAD").Body.String()
	consoletest.MustHave(t, body, `name="from" value="/messages?topic=orders&amp;status=DEAD"`)
	w := consoletest.Post(t, consoletest.Site(t, a), consoletest.MessagePath+"/delete", url.Values{"reason": {"a & b"}, "from": {"/messages?topic=orders"}})
	consoletest.WantDone(t, "deleting", w, "deleted", "/messages?topic=orders")
	consoletest.WantAsked(t, a, "DELETE "+consoletest.MessageAPI, "reason=a+%26+b")
}

func TestRefusedActionIsShownAndKeepsWhatWasTyped(t *testing.T) {
	t.Parallel()
	a := consoletest.WithMessage(t, `"origin_confidence":"name"`).
		Says("POST "+consoletest.MessageAPI+"/retry", consoletest.Refuse(http.StatusBadGateway, "SYS_DLQ_PUBLISH_FAILED", "the message could not be published", []map[string]any{
			{"field": "class", "reason": "NETWORK_TIMEOUT"}, {"field": "retry_at", "reason": "2026-02-20T12:05:00.000+00:00"},
		})).
		Says("POST "+consoletest.MessageAPI+"/origin", consoletest.Refuse(http.StatusConflict, "SYS_DLQ_CONFLICT", "a retry has it", nil))
	w := consoletest.Post(t, consoletest.Site(t, a), consoletest.MessagePath+"/retry", url.Values{"key": {"k"}})
	consoletest.WantSays(t, "the page", w, http.StatusOK)
	consoletest.MustHave(t, consoletest.Readable(t, w.Body.String()), "The broker refused", "Error class: NETWORK_TIMEOUT. The next attempt is due in 5 min.")
	w = consoletest.Post(t, consoletest.Site(t, a), consoletest.MessagePath+"/origin", url.Values{"original_topic": {"typed.topic"}, "reason": {`typed "reason"`}})
	consoletest.MustHave(t, w.Body.String(), `value="typed.topic"`, `value="typed &#34;reason&#34;"`, "A retry has it.", `<details class="act" name="act" open>`)
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
		body := consoletest.Get(t, consoletest.Site(t, consoletest.WithMessage(t, members)), consoletest.MessagePath+"?unmask=true&view=hex").Body.String()
		if got := strings.Contains(body, `hx-trigger="every 3s"`); got != live {
			t.Errorf("%s: got live %t, want %t", members, got, live)
		}
		if live {
			consoletest.MustNotHave(t, body[strings.Index(body, "hx-get"):strings.Index(body, "hx-trigger")], "unmask", "hex")
		}
	}
	body := consoletest.Get(t, consoletest.Site(t, consoletest.WithMessage(t, `"status":"RESOLVED","outcome":"consumed","outcome_group":"billing","outcome_offset":8`)), consoletest.MessagePath+"?seen=RETRYING").Body.String()
	consoletest.MustHave(t, consoletest.Readable(t, body), "Consumer group billing committed offset 8, past its record: evidence, not proof.", "Its state has changed")
}

func TestPastIsOneTimeLine(t *testing.T) {
	t.Parallel()
	a := consoletest.WithMessage(t, `"status":"RESOLVED","outcome":"returned"`).Says("GET "+consoletest.MessageAPI+"/history", consoletest.Raw(`{"attempts":[
		{"number":1,"redrive_id":"a","actor":"olga","started_at":"2026-02-20T11:10:00Z","ended_at":"2026-02-20T11:10:01Z","from_status":"RETRYING","to_status":"PENDING","error_class":"NETWORK_TIMEOUT","error":"slow"},
		{"number":2,"redrive_id":"b","bulk_redrive_id":"0198a4c2-7e10-7c3a-9d2f-3b1e5a6c7d8e","actor":"olga","ended_at":"2026-02-20T11:20:00Z","from_status":"RETRYING","to_status":"RESOLVED","topic":"orders.events.v1","partition":3,"offset":7,
		 "edit":{"payload_changed":true,"payload_patch":[{"op":"replace","path":"/order_id","value":"124"}],"key_changed":true}}],
		"changes":[{"at":"2026-02-20T11:09:59Z","action":"retry","actor":"olga","reason":"the stock is back"},{"at":"2026-02-20T11:10:01Z","action":"attempt","actor":"olga","from":"RETRYING","to":"PENDING"}],
		"lineage":[{"id":"550e8400-e29b-41d4-a716-446655440009","status":"RESOLVED","outcome":"returned","created_at":"2026-02-20T09:00:00Z","attempts":[{"topic":"orders.events.v1","partition":1,"offset":5}]}]}`)).
		Says("GET /api/v1/messages", consoletest.Raw(`{"messages":[{"id":"550e8400-e29b-41d4-a716-446655440010","parent_id":"`+consoletest.MessageID+`","status":"DEAD","error_message":"again"},{"id":"another","parent_id":"x"}]}`))
	body := consoletest.Get(t, consoletest.Site(t, a), consoletest.MessagePath).Body.String()
	said := consoletest.Readable(t, body)
	consoletest.MustHave(t, said, "Attempt 1 by olga", "NETWORK_TIMEOUT slow", "Attempt 2 by olga in a redrive", "partition 3, offset 7", "replace /order_id = \"124\"", "another key",
		"was retried by olga", "the stock is back", "last to orders.events.v1 partition 1, offset 5")
	consoletest.MustHave(t, body, `href="/messages/550e8400-e29b-41d4-a716-446655440010"`, `href="/messages/550e8400-e29b-41d4-a716-446655440009"`, `href="/redrives/0198a4c2-7e10-7c3a-9d2f-3b1e5a6c7d8e"`)
	consoletest.MustNotHave(t, body, "/messages/another")
	if asked := strings.Index(said, "was retried by"); asked > strings.Index(said, "Attempt 1 by") {
		t.Error("got an attempt before it was asked for, want the oldest first")
	}
}

func TestMaskedIsSaidAndUnmaskedByWhoMay(t *testing.T) {
	t.Parallel()
	masked := `"payload":{"card":"***"},"masked":["$.card","header:auth"],"headers":[{"key":"auth","value":{"encoding":"utf8","data":"***"}}]`
	a := consoletest.WithMessage(t, masked)
	consoletest.MustHave(t, consoletest.Get(t, consoletest.Site(t, a), consoletest.MessagePath).Body.String(), `href="`+consoletest.MessagePath+`?unmask=true"`, "***")
	consoletest.Get(t, consoletest.Site(t, a), consoletest.MessagePath+"?unmask=true")
	consoletest.WantAsked(t, a, "GET "+consoletest.MessageAPI, "unmask=true")
	body := consoletest.Get(t, consoletest.Site(t, consoletest.WithMessage(t, masked).As(consoletest.ReadOnly)), consoletest.MessagePath).Body.String()
	consoletest.MustNotHave(t, body, "?unmask=true")
	consoletest.MustHave(t, body, "you need the grant unmask")
}

// The page names the headers that a replay does not carry, and warns of those that it carries although the failure was
// read from them. The form of an edit begins with the same choice.
func TestHeadersOfTheReplayAreTold(t *testing.T) {
	t.Parallel()
	shown := func(headers, path string) string {
		a := consoletest.WithMessage(t, `"headers":[{"key":"x-attempts","value":{"encoding":"utf8","data":"5"}},{"key":"tenant","value":null}],`+headers)
		return consoletest.Get(t, consoletest.Site(t, a), path).Body.String()
	}
	const removes, keeps = `"replay_removes":["x-attempts"],"replay_keeps":[]`, `"replay_removes":[],"replay_keeps":["x-attempts"],"derived":{"consumer_attempts":{"header":"x-attempts"}}`
	consoletest.MustHave(t, shown(removes, consoletest.MessagePath), `x-attempts <span class="tag" title="It belongs to the failure: a replay does not carry it.">not replayed</span>`)
	consoletest.MustNotHave(t, shown(removes, consoletest.MessagePath), `id="replay-keeps"`, "tenant <span")
	consoletest.MustHave(t, consoletest.Readable(t, shown(keeps, consoletest.MessagePath)), "A replay still carries x-attempts")
	consoletest.MustNotHave(t, shown(keeps, consoletest.MessagePath), "not replayed")
	consoletest.MustHave(t, shown(removes, consoletest.MessagePath+"/edit"), `<option value="remove" selected>`)
	consoletest.MustNotHave(t, shown(keeps, consoletest.MessagePath+"/edit"), `<option value="remove" selected>`)
}

// The page of a message with an undeclared origin says why it is undeclared, and that redrives and automatic retry skip
// the message. It offers both ways to declare the origin. The page of any other message has no such notice.
func TestUndeclaredOriginIsSaidWithTheWaysToDeclareIt(t *testing.T) {
	t.Parallel()
	undeclared := consoletest.Get(t, consoletest.Site(t, consoletest.WithMessage(t, `"undeclared":true,"undeclared_reason":"records of gamma.dlq.v1 may not claim orders.events.v1"`)), consoletest.MessagePath).Body.String()
	consoletest.MustHave(t, undeclared, `id="undeclared"`, `class="badge undeclared"`, `href="/topics/mapping"`, `action="`+consoletest.MessagePath+`/origin"`)
	consoletest.MustHave(t, consoletest.Readable(t, undeclared), "records of gamma.dlq.v1 may not claim orders.events.v1", "Redrives and automatic retry skip it")
	consoletest.MustNotHave(t, consoletest.Get(t, consoletest.Site(t, consoletest.WithMessage(t, `"undeclared":false,"undeclared_reason":null`)), consoletest.MessagePath).Body.String(), `id="undeclared"`, "badge undeclared")
}

// The page of a message shows its repeats with their positions, and of which message it is a repeat.
func TestRepeatsAreShownWithTheirPositions(t *testing.T) {
	t.Parallel()
	page := func(members string) string {
		return consoletest.Get(t, consoletest.Site(t, consoletest.WithMessage(t, members)), consoletest.MessagePath).Body.String()
	}
	counted := page(`"duplicates":2,"repeats":[{"partition":3,"offset":8},{"partition":1,"offset":7}]`)
	consoletest.MustHave(t, counted, "2 repeated dead letters left out", "partition 3, offset 8", "partition 1, offset 7")
	consoletest.MustNotHave(t, counted, "Repeat of")
	repeat := page(`"duplicates":0,"repeats":[],"repeat_of":"550e8400-e29b-41d4-a716-446655440009"`)
	consoletest.MustHave(t, repeat, "Repeat of", `href="/messages/550e8400-e29b-41d4-a716-446655440009"`, "left out of automatic and bulk retry")
	consoletest.MustNotHave(t, repeat, "left out</summary>")
}

// The page of a share group's dead letter names the share group, the number of deliveries, and whether the failed
// record is stored. If the record is not stored, the page says why. It then offers a download only of a record that is
// fetched on request.
func TestShareGroupsDeadLetterSaysWhereItsRecordIs(t *testing.T) {
	t.Parallel()
	const pointer = `"dialect":"sharegroup","consumer_attempts":5,"payload":null,"payload_size":null,"payload_omitted":"pointer"`
	const download = `href="` + consoletest.MessagePath + `/payload"`
	page := func(members string) string {
		return consoletest.Get(t, consoletest.Site(t, consoletest.WithMessage(t, members)), consoletest.MessagePath).Body.String()
	}
	for name, c := range map[string]struct {
		members    string
		has, lacks []string
	}{
		"Completed": {
			`"dialect":"sharegroup","consumer_attempts":1,"completion":"completed","duplicates":2`,
			[]string{"<dt>Share group</dt>", "1 delivery", "<dt>Failed record</dt><dd>stored</dd>", "2 repeated dead letters left out", download},
			[]string{"Consumer group"},
		},
		"Waiting": {
			pointer + `,"completion":"waiting","duplicates":0`,
			[]string{"5 deliveries", "<dt>Failed record</dt><dd>not stored yet</dd>", "within seconds", "no download: the record is not stored yet"},
			[]string{download, "repeated", "Ways to look at the payload"},
		},
		"Gone": {
			pointer + `,"completion":"gone","completion_reason":"retention removed it","duplicates":0`,
			[]string{`<span class="badge bad">gone</span></dd>`, "no longer has it", "Reason: retention removed it.", "no download: the record is gone"},
			[]string{download, "Ways to look at the payload"},
		},
		"Refused": {
			pointer + `,"completion":"refused","completion_reason":"it may not be read","duplicates":0`,
			[]string{`<span class="badge bad">not stored</span>`, "Reason: it may not be read. It is fetched on request.", download},
			nil,
		},
		"CopyOfARecordThatIsGone": {
			`"dialect":"sharegroup","completion":"gone","completion_reason":"retention removed it"`,
			[]string{`<span class="badge bad">gone</span><br><span class="aside">retention removed it</span>`, download, "order_id"},
			nil,
		},
		"NotOfAShareGroup": {`"completion":null,"completion_reason":null,"duplicates":null`, []string{"<dt>Consumer group</dt>"}, []string{"Share group", "Failed record"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := page(c.members)
			consoletest.MustHave(t, body, c.has...)
			consoletest.MustNotHave(t, body, c.lacks...)
		})
	}
}

func TestPayloadIsDownloadedAsItIs(t *testing.T) {
	t.Parallel()
	value := bytes.Repeat([]byte{0, 255, '<'}, 1<<20)
	a := consoletest.NewAPI(t).Says("GET "+consoletest.MessageAPI+"/payload", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Disposition", `attachment; filename="x.bin"`)
		_, _ = w.Write(value)
	}))
	w := consoletest.Get(t, consoletest.Site(t, a), consoletest.MessagePath+"/payload")
	if got, _ := io.ReadAll(w.Body); !bytes.Equal(got, value) || w.Header().Get("Content-Disposition") == "" || w.Header().Get("Content-Type") != "application/octet-stream" {
		t.Errorf("got %d bytes as %q, want all as a download", len(got), w.Header().Get("Content-Type"))
	}
}

// No data of a message becomes markup of the page.
func TestNothingOfAMessageBecomesMarkup(t *testing.T) {
	t.Parallel()
	const text = `{"encoding":"utf8","data":"HOSTILE"}`
	for _, path := range []string{consoletest.MessagePath, consoletest.MessagePath + "?view=text", consoletest.MessagePath + "?view=pretty", consoletest.MessagePath + "?view=hex", consoletest.MessagePath + "/edit"} {
		a := consoletest.NewAPI(t).As(session.Viewer{Name: consoletest.Hostile, Grants: []session.Grant{{Role: "admin", Topics: []string{"*"}}}}).
			Says("GET /api/v1/groups/"+consoletest.Hostile, consoletest.Quoted(`{"title":"HOSTILE","link":"javascript:alert(1)"}`)).
			Says("GET /api/v1/messages",
				consoletest.Quoted(`{"messages":[{"id":"HOSTILE","parent_id":"`+consoletest.MessageID+`","status":"HOSTILE","error_message":"HOSTILE"}]}`)).
			Says("GET "+consoletest.MessageAPI,
				consoletest.Quoted(`{"id":"`+consoletest.MessageID+`","status":"RESOLVED","outcome":"returned","original_topic":"HOSTILE","error_message":"HOSTILE",
				"error_class":"HOSTILE","stack_trace":"HOSTILE\n\tat HOSTILE\n\tat java.HOSTILE","dlq_topic":"HOSTILE","consumer_group":"HOSTILE","dialect":"HOSTILE",
				"outcome_group":"HOSTILE","last_publish_error":"HOSTILE","last_publish_error_class":"HOSTILE","group_id":"HOSTILE","parent_id":"HOSTILE","key":`+text+`,
				"headers":[{"key":"HOSTILE","value":`+text+`},{"key":"traceparent","value":`+text+`}],"payload":{"HOSTILE":["HOSTILE"],"x":"HOSTILE"},
				"payload_size":10,"masked":["HOSTILE"],"replay_removes":["HOSTILE"],"replay_keeps":["HOSTILE","traceparent"],"hops":[{"dialect":"HOSTILE","topic":"HOSTILE"}],"retry_count":1,"max_retries":3,
				"derived":{"original_topic":{"source":"header","dialect":"HOSTILE","header":"HOSTILE","confidence":"HOSTILE"}}}`)).
			Says("GET "+consoletest.MessageAPI+"/history",
				consoletest.Quoted(`{"attempts":[{"number":1,"actor":"HOSTILE","bulk_redrive_id":"HOSTILE","from_status":"HOSTILE","to_status":"HOSTILE",
				"error_class":"HOSTILE","error":"HOSTILE","topic":"HOSTILE","edit":{"target_topic":"HOSTILE","payload_changed":true,
				"payload_patch":[{"op":"HOSTILE","path":"HOSTILE","value":"HOSTILE"}]}}],"changes":[{"action":"HOSTILE","actor":"HOSTILE","reason":"HOSTILE",
				"from":"a","to":"HOSTILE","error":"HOSTILE"}],"lineage":[{"id":"HOSTILE","status":"HOSTILE","outcome":"HOSTILE"}]}`))
		w := consoletest.Get(t, consoletest.Site(t, a), path)
		consoletest.WantSays(t, path, w, http.StatusOK)
		consoletest.WantNoMarkup(t, w.Body.String())
	}
}

func TestCommandsAreQuotedForAShell(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Host = "evil'; rm -rf ~ #"
	got := message.CurlWithToken(r, http.MethodPost, "/api/v1/x", `{"reason":"it's"}`)
	want := `curl -sS -X POST -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' -d '{"reason":"it'\''s"}' 'http://evil'\''; rm -rf ~ #/api/v1/x'`
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	consoletest.MustHave(t, consoletest.Readable(t, consoletest.Get(t, consoletest.Site(t, consoletest.WithMessage(t, "")), consoletest.MessagePath).Body.String()), "curl -sS 'http://example.com"+consoletest.MessageAPI+"'")
}
