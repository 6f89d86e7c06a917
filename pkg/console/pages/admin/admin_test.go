package admin_test

import (
	"maps"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/consoletest"
)

func TestAudit(t *testing.T) {
	t.Parallel()
	a := consoletest.NewAPI(t)
	a.Says("GET /api/v1/audit",
		consoletest.Quoted(`{"changes": [{"id": 3, "at": "2026-02-20T10:30:00.000+00:00", "action": "dead", "kind": "message",
		"object_id": "550e8400-e29b-41d4-a716-446655440000", "from": "PENDING", "to": "DEAD", "retry_count": 1, "error_class": "HOSTILE", "error": "HOSTILE",
		"actor": "HOSTILE", "reason": "HOSTILE", "request_id": "req_1", "trace_id": null, "actor_kind": "person", "entries": 2}], "next_cursor": "abc"}`))
	body := consoletest.Get(t, consoletest.Site(t, a), "/audit?kind=message&action=dead&actor=alice&unknown=1").Body.String()
	consoletest.MustHave(t, body, "/messages/550e8400-e29b-41d4-a716-446655440000", `badge dead">DEAD`, "cursor=abc", `<option selected>dead`,
		`value="alice"`, "marked a message dead", `hx-get="/audit?request_id=req_1"`, "2 entries")
	consoletest.WantNoMarkup(t, body)
	consoletest.WantAsked(t, a, "GET /api/v1/audit", "action=dead&actor=alice&actor_kind=person&by_request=true&kind=message&limit=50")
	a.Says("GET /api/v1/audit", consoletest.Refuse(http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR", "after: must be a time", nil))
	consoletest.WantSays(t, "a wrong time", consoletest.Get(t, consoletest.Site(t, a), "/audit?after=yesterday"), http.StatusBadRequest, "after: must be a time")
}

// TestAudit_KnowsEveryChange: the page offers every kind and every action of the API as a filter, and has words for both.
func TestAudit_KnowsEveryChange(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../rest/openapi/openapi.yaml")
	check.NoError(t, err)
	listed := func(pattern string) []string {
		found := regexp.MustCompile(pattern).FindSubmatch(text)
		check.Require(t, found != nil, "the OpenAPI file has no %s", pattern)
		return strings.Split(string(found[1]), ", ")
	}
	var changes []string
	kinds, actions := listed(`kind: {type: string, enum: \[(message, redrive[^]]*)]`), listed(`enum: \[(retry, attempt[^]]*)]`)
	for i, action := range actions {
		changes = append(changes, `{"id": 3, "at": "2026-02-20T10:30:00.000+00:00", "action": "`+action+`", "kind": "`+kinds[i%len(kinds)]+`",
			"object_id": "550e8400-e29b-41d4-a716-446655440000", "actor": "alice", "request_id": "req_1", "actor_kind": "person", "entries": 1}`)
	}
	a := consoletest.NewAPI(t)
	a.Says("GET /api/v1/audit", consoletest.Quoted(`{"changes": [`+strings.Join(changes, ",")+`], "next_cursor": null}`))
	body := consoletest.Get(t, consoletest.Site(t, a), "/audit").Body.String()
	for i, action := range actions {
		kind := kinds[i%len(kinds)]
		check.True(t, strings.Contains(body, "<option>"+action) && strings.Contains(body, "<option>"+kind), "no filter for %s of %s", action, kind)
		check.True(t, !strings.Contains(body, action+" "+kind), "no words for %s of %s", action, kind)
	}
}

func TestAudit_Asks(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"/audit":               "actor_kind=person&by_request=true&limit=50",
		"/audit?by=all":        "by_request=true&limit=50",
		"/audit?day=today":     "actor_kind=person&after=2026-02-20T00%3A00%3A00.000Z&by_request=true&limit=50",
		"/audit?day=yesterday": "actor_kind=person&after=2026-02-19T00%3A00%3A00.000Z&by_request=true&limit=50&until=2026-02-20T00%3A00%3A00.000Z",
		"/audit?day=7d":        "actor_kind=person&after=2026-02-14T00%3A00%3A00.000Z&by_request=true&limit=50",
		"/audit?day=today&after=2026-02-01T10:30&until=2026-02-02+10:30": "actor_kind=person&after=2026-02-01T10%3A30%3A00Z&by_request=true&limit=50&until=2026-02-02T10%3A30%3A00Z",
		"/audit?request_id=req_1&cursor=abc":                             "cursor=abc&limit=100&request_id=req_1",
		"/audit?object_id=x":                                             "limit=100&object_id=x",
	} {
		a := consoletest.NewAPI(t).Says("GET /api/v1/audit", consoletest.Raw(`{"changes": [], "next_cursor": null}`))
		body := consoletest.Get(t, consoletest.Site(t, a), address).Body.String()
		consoletest.WantAsked(t, a, "GET /api/v1/audit", want)
		if strings.Contains(body, "Nothing is recorded yet") != (address == "/audit") {
			t.Errorf("%s: wrong words for an empty trail: %s", address, body)
		}
	}
}

func TestAudit_Words(t *testing.T) {
	t.Parallel()
	entry := func(fields string) string {
		return `{"changes": [{"id": 1, "at": "2026-02-20T10:30:00.000+00:00", "object_id": "550e8400-e29b-41d4-a716-446655440000", ` +
			fields + `}], "next_cursor": null}`
	}
	for fields, want := range map[string]string{
		`"action": "create", "kind": "redrive", "actor": "alice", "actor_kind": "person", "redrive": {"action": "dead", "selected": 2}`:     "marked 2 messages dead",
		`"action": "create", "kind": "redrive", "actor": "alice", "actor_kind": "person", "redrive": {"action": "retry", "selected": 1500}`: "retried 1,500 messages",
		`"action": "create", "kind": "redrive", "actor": "alice", "actor_kind": "person"`:                                                   "started a redrive",
		`"action": "finish", "kind": "redrive", "actor": "alice", "actor_kind": "machine"`:                                                  "dlq-manager, for alice",
		`"action": "attempt", "kind": "message", "actor": "settler", "actor_kind": "machine"`:                                               "dlq-manager (settler)",
		`"action": "unheard", "kind": "message", "actor": "alice", "actor_kind": "person"`:                                                  "unheard message",
		`"action": "dead", "kind": "message", "actor": "alice", "actor_kind": "person", "request_id": "req_1", "entries": 1001`:             "more than 1,000 entries",
	} {
		a := consoletest.NewAPI(t).Says("GET /api/v1/audit", consoletest.Raw(entry(fields)))
		consoletest.MustHave(t, consoletest.Get(t, consoletest.Site(t, a), "/audit?by=all").Body.String(), want)
	}
}

const someMapping = `{"version": 4, "updated_at": "2026-02-20T10:30:00.000+00:00", "updated_by": "HOSTILE",
	"rules": [{"pattern": "payments.*", "original": "HOSTILE"}], "configured": [{"pattern": "HOSTILE", "original": "audit"}],
	"unmapped": [{"dlq_topic": "HOSTILE", "messages": 1, "original": null}]}`

func TestMapping(t *testing.T) {
	t.Parallel()
	api := func(t *testing.T) *consoletest.API {
		t.Helper()
		return consoletest.NewAPI(t).Says("GET /api/v1/mappings", consoletest.Quoted(someMapping))
	}
	consoletest.Shows(t, api, map[string]consoletest.Look{
		"IsShown": {Path: "/topics/mapping", Has: []string{"payments.* -&gt; &lt;script", `name="version" value="4"`}},
		"MayBeReadByViewers": {
			Path: "/topics/mapping", Says: consoletest.Answers{"GET /api/v1/session": consoletest.ReadOnly},
			Has: []string{`value="preview" disabled>`, "needs the role admin on all topics"},
		},
	})
	form := url.Values{
		"version": {"4"}, "rules": {" payments.* -> payments.events.v1 \n\nb->c\n"}, "apply": {"1"}, "reason": {"asked"},
		"key": {"abc"},
	}
	const redriveID = "0198a4c2-7e10-7c3a-9d2f-3b1e5a6c7d8e"
	looked := regexp.MustCompile(`name="looked" value="([0-9a-f]+)"`)
	t.Run("IsReplacedAfterAPreview", func(t *testing.T) {
		t.Parallel()
		const rules = `"rules":[{"pattern":"payments.*","original":"payments.events.v1"},{"pattern":"b","original":"c"}],"version":4}`
		a := api(t).Says("PUT /api/v1/mappings", consoletest.Raw(`{"version": 4, "rules": [], "configured": [], "unmapped": [],
			"redrives": ["`+redriveID+`"], "preview": [{"dlq_topic": "b", "original": "c", "selected": 5, "sendable": 4, "reasons": {"taken": 1}}]}`))
		s := consoletest.Site(t, a)
		sent := maps.Clone(form)
		// the form names a preview that the console has not shown
		sent["do"], sent["looked"] = []string{"replace"}, []string{"0123456789abcdef"}
		w := consoletest.Post(t, s, "/topics/mapping", sent)
		consoletest.WantSays(t, "the preview", w, http.StatusOK, "What would change", "4 get this original topic; 1 do not (taken)", `value="asked"`, `href="/messages?origin=unknown&amp;topic=b"`)
		consoletest.WantSent(t, a, "PUT /api/v1/mappings", `{"dry_run":true,`+rules, "")
		found := looked.FindStringSubmatch(w.Body.String())
		check.Require(t, len(found) == 2, "the form does not say what was previewed")
		sent["looked"] = found[1:]
		consoletest.WantDone(t, "replacing", consoletest.Post(t, s, "/topics/mapping", sent), "mapped", "/topics/mapping?redrive="+redriveID)
		_, bodies := a.Asked("PUT /api/v1/mappings")
		check.Equal(t, bodies[1], `{"apply":true,"reason":"asked",`+rules, "body")
		consoletest.MustHave(t, consoletest.Get(t, s, "/topics/mapping?redrive="+redriveID+"&redrive=nonsense").Body.String(), `href="/redrives/`+redriveID+`"`)
	})
	t.Run("ErrorsNameTheLine", func(t *testing.T) {
		t.Parallel()
		a := api(t).Says("PUT /api/v1/mappings", consoletest.Refuse(http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR", "rules[1].original: is a dead-letter topic",
			[]map[string]any{{"field": "rules[1].original", "reason": "is a dead-letter topic"}}))
		w := consoletest.Post(t, consoletest.Site(t, a), "/topics/mapping", url.Values{"version": {"4"}, "rules": {"a -> b\n\nc -> d"}})
		consoletest.WantSays(t, "the page", w, http.StatusOK, "line 3, original: is a dead-letter topic")
	})
	t.Run("ThatSomebodyElseChangedIsAskedAgain", func(t *testing.T) {
		t.Parallel()
		theirs := `{"version": 5, "updated_at": "2026-02-20T11:30:00.000+00:00", "updated_by": "bob HOSTILE",
			"rules": [{"pattern": "payments.*", "original": "payments.events.v1"}, {"pattern": "bobs", "original": "HOSTILE"}], "configured": [], "unmapped": []}`
		a := consoletest.NewAPI(t).Says("GET /api/v1/mappings", consoletest.Quoted(theirs)).
			Says("PUT /api/v1/mappings", consoletest.Refuse(http.StatusConflict, "SYS_DLQ_CONFLICT", "replaced meanwhile", nil))
		w := consoletest.Post(t, consoletest.Site(t, a), "/topics/mapping", form)
		consoletest.WantSays(t, "the page", w, http.StatusOK, "replaced meanwhile", "b-&gt;c", "bob &lt;script", "version 5", "<li><code>bobs</code>",
			"<del>bobs -&gt; &lt;script", "<ins>b -&gt; c</ins>", "<span>payments.* -&gt; payments.events.v1</span>", `name="version" value="5"`,
			"Preview")
		consoletest.WantNoMarkup(t, w.Body.String())
	})
	t.Run("ThatIsNoRuleIsShownWithItsLine", func(t *testing.T) {
		t.Parallel()
		w := consoletest.Post(t, consoletest.Site(t, api(t)), "/topics/mapping", url.Values{"version": {"4"}, "rules": {"a -> b\nnonsense"}})
		consoletest.WantSays(t, "the page", w, http.StatusOK, "line 2: must be PATTERN")
	})
}

const someRedirects = `{"redirects": [{"topic": "orders.old", "target": "HOSTILE", "version": 7, "reason": "HOSTILE",
	"updated_at": "2026-02-20T10:30:00.000+00:00", "updated_by": "HOSTILE"}], "next_cursor": null}`

func TestRedirects(t *testing.T) {
	t.Parallel()
	const put, remove = "PUT /api/v1/redirects/orders.old", "DELETE /api/v1/redirects/orders.old"
	preview := `{"redirect": null, "preview": {"target": "orders.new", "counts": {"PENDING": 4, "RETRYING": 0, "RESOLVED": 9, "DEAD": 2},
		"selected": 4, "sendable": 3, "reasons": {"BAD_RECORD": 1}, "groups": [
		{"topic": "orders.old", "messages": 3, "class": null, "reason": null, "target_missing": false},
		{"topic": "orders.old", "messages": 1, "class": "BAD_RECORD", "reason": "HOSTILE", "target_missing": false}]}}`
	site := func(t *testing.T) (*consoletest.API, http.Handler) {
		t.Helper()
		a := consoletest.NewAPI(t).Says("GET /api/v1/redirects", consoletest.Quoted(someRedirects)).
			Says(put, consoletest.Quoted(preview)).Says(remove, consoletest.Quoted(preview))
		return a, consoletest.Site(t, a)
	}

	t.Run("AreListed", func(t *testing.T) {
		t.Parallel()
		a, s := site(t)
		body := consoletest.Get(t, s, "/topics/redirects?topic=orders.new").Body.String()
		consoletest.MustHave(t, body, "&lt;script", `href="/topics/redirects?remove=1&amp;topic=orders.old"`, `name="topic" required maxlength="249" autocomplete="off" spellcheck="false" value="orders.new"`)
		consoletest.WantNoMarkup(t, body)
		asked, _ := a.Asked(put)
		check.Len(t, asked, 0, "dry runs without a target")
	})

	t.Run("ArePreviewedBeforeTheyAreStored", func(t *testing.T) {
		t.Parallel()
		a, s := site(t)
		w := consoletest.Get(t, s, "/topics/redirects?topic=orders.old&target=orders.new")
		consoletest.WantSays(t, "the page", w, http.StatusOK, "4 pending messages", "2 dead", "would send 3 of 4", `name="version" value="7"`, "Replace the redirect")
		consoletest.WantNoMarkup(t, w.Body.String())
		consoletest.WantSent(t, a, put, `{"dry_run":true,"target":"orders.new"}`, "")
	})

	t.Run("AreStoredInTheVersionThatWasSeen", func(t *testing.T) {
		t.Parallel()
		a, s := site(t)
		form := url.Values{"topic": {"orders.old"}, "target": {" orders.new "}, "version": {"7"}, "reason": {"renamed"}, "key": {"abc"}}
		consoletest.WantDone(t, "redirecting", consoletest.Post(t, s, "/topics/redirects", form), "redirected", "/topics/redirects")
		consoletest.WantSent(t, a, put, `{"reason":"renamed","target":"orders.new"}`, "console-abc")
		asked, _ := a.Asked(put)
		check.Equal(t, asked[0].Header.Get("If-Match"), `"7"`, "If-Match")
	})

	t.Run("RefusedIsShownWithWhatWasTyped", func(t *testing.T) {
		t.Parallel()
		a, s := site(t)
		a.Says(put, consoletest.Refuse(http.StatusPreconditionFailed, "SYS_DLQ_PRECONDITION_FAILED", "the redirect of orders.old has changed", nil))
		w := consoletest.Follow(t, s, "/topics/redirects", url.Values{"topic": {"orders.old"}, "target": {"orders.new"}, "version": {"0"}})
		consoletest.WantSays(t, "the page", w, http.StatusPreconditionFailed, "has changed", `value="orders.new"`)
	})

	t.Run("AreRemovedAfterAPreview", func(t *testing.T) {
		t.Parallel()
		a, s := site(t)
		w := consoletest.Get(t, s, "/topics/redirects?topic=orders.old&remove=1")
		consoletest.WantSays(t, "the page", w, http.StatusOK, "Remove the redirect of", "would send 3 of 4", `action="/topics/redirects/remove"`)
		consoletest.WantAsked(t, a, remove, "dry_run=true")
		form := url.Values{"topic": {"orders.old"}, "version": {"7"}, "reason": {"it is back"}}
		consoletest.WantDone(t, "removing", consoletest.Post(t, s, "/topics/redirects/remove", form), "redirect-gone", "/topics/redirects")
		consoletest.WantAsked(t, a, remove, "reason=it+is+back")
	})

	t.Run("ViewersReadThem", func(t *testing.T) {
		t.Parallel()
		a, s := site(t)
		a.Says("GET /api/v1/session", consoletest.ReadOnly)
		w := consoletest.Get(t, s, "/topics/redirects?topic=orders.old&target=orders.new")
		consoletest.WantSays(t, "the page", w, http.StatusOK, "needs the role admin")
		asked, _ := a.Asked(put)
		check.Len(t, asked, 0, "dry runs of a viewer")
	})
}

func TestQuarantine(t *testing.T) {
	t.Parallel()
	const retry, remove = "POST /api/v1/quarantine/" + consoletest.QuarantinedID + "/retry", "DELETE /api/v1/quarantine/" + consoletest.QuarantinedID
	a := consoletest.NewAPI(t).Says("GET /api/v1/quarantine", consoletest.Quoted(consoletest.SomeQuarantine)).Says(retry, consoletest.Quoted(consoletest.SomeQuarantine)).Says(remove,
		consoletest.Raw(`{"success": true}`))
	s := consoletest.Site(t, a)
	w := consoletest.Get(t, s, "/quarantine")
	consoletest.WantSays(t, "the page", w, http.StatusOK, "orders.dlq.v1", "offset 41", "23514", "violates check constraint", "7 bytes",
		`href="/quarantine?cursor=abc"`,
		`action="/quarantine/`+consoletest.QuarantinedID+`/retry"`, `action="/quarantine/`+consoletest.QuarantinedID+`/delete"`)
	consoletest.WantNoMarkup(t, w.Body.String())
	consoletest.WantDone(t, "trying", consoletest.Post(t, s, "/quarantine/"+consoletest.QuarantinedID+"/retry", url.Values{"key": {"abc"}}), "trying", "/quarantine")
	consoletest.WantSent(t, a, retry, `{}`, "console-abc")
	form := url.Values{"key": {"abc"}, "reason": {"a test record"}}
	consoletest.WantDone(t, "deleting", consoletest.Post(t, s, "/quarantine/"+consoletest.QuarantinedID+"/delete", form), "record-deleted", "/quarantine")
	consoletest.WantSent(t, a, remove, `{"reason":"a test record"}`, "")
	a.Says(remove, consoletest.Refuse(http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR", "reason: is required", nil))
	consoletest.WantSays(t, "without a reason", consoletest.Post(t, s, "/quarantine/"+consoletest.QuarantinedID+"/delete", nil), http.StatusOK, "reason: is required")
}
