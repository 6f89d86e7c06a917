package admin_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/consoletest"
)

func TestAudit(t *testing.T) {
	t.Parallel()
	a := consoletest.NewAPI(t).Says("GET /api/v1/audit",
		consoletest.Quoted(`{"changes": [{"id": 3, "at": "2026-02-20T10:30:00.000+00:00", "action": "dead", "kind": "message",
		"object_id": "550e8400-e29b-41d4-a716-446655440000", "from": "PENDING", "to": "DEAD", "retry_count": 1, "error_class": "HOSTILE", "error": "HOSTILE",
		"actor": "HOSTILE", "reason": "HOSTILE", "request_id": "req_1", "trace_id": null}], "next_cursor": "abc"}`))
	body := consoletest.Get(t, consoletest.Site(t, a), "/audit?kind=message&action=dead&actor=alice&unknown=1").Body.String()
	consoletest.MustHave(t, body, "/messages/550e8400-e29b-41d4-a716-446655440000", `badge dead">DEAD`, "cursor=abc", `<option selected>dead`,
		`value="alice"`)
	consoletest.WantNoMarkup(t, body)
	consoletest.WantAsked(t, a, "GET /api/v1/audit", "action=dead&actor=alice&kind=message&limit=100")
	a.Says("GET /api/v1/audit", consoletest.Refuse(http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR", "after: must be a time", nil))
	consoletest.WantSays(t, "a wrong time", consoletest.Get(t, consoletest.Site(t, a), "/audit?after=yesterday"), http.StatusBadRequest, "after: must be a time",
		`value="yesterday"`)
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
			Has: []string{`<button class="first" disabled>`, "needs the role admin on all topics"},
		},
	})
	form := url.Values{
		"version": {"4"}, "rules": {" payments.* -> payments.events.v1 \n\nb->c\n"}, "apply": {"1"}, "reason": {"asked"},
		"key": {"abc"},
	}
	t.Run("IsReplacedOnce", func(t *testing.T) {
		t.Parallel()
		a := consoletest.NewAPI(t).Says("PUT /api/v1/mappings", consoletest.Quoted(someMapping))
		consoletest.WantDone(t, "replacing", consoletest.Post(t, consoletest.Site(t, a), "/topics/mapping", form), "mapped", "/topics/mapping")
		consoletest.WantSent(t, a, "PUT /api/v1/mappings",
			`{"apply":true,"reason":"asked","rules":[{"pattern":"payments.*","original":"payments.events.v1"},`+
				`{"pattern":"b","original":"c"}],"version":4}`, "console-abc")
	})
	t.Run("ThatSomebodyElseChangedIsAskedAgain", func(t *testing.T) {
		t.Parallel()
		theirs := `{"version": 5, "updated_at": "2026-02-20T11:30:00.000+00:00", "updated_by": "bob HOSTILE",
			"rules": [{"pattern": "payments.*", "original": "payments.events.v1"}, {"pattern": "bobs", "original": "HOSTILE"}], "configured": [], "unmapped": []}`
		a := consoletest.NewAPI(t).Says("GET /api/v1/mappings", consoletest.Quoted(theirs)).
			Says("PUT /api/v1/mappings", consoletest.Refuse(http.StatusConflict, "SYS_DLQ_CONFLICT", "replaced meanwhile", nil))
		w := consoletest.Post(t, consoletest.Site(t, a), "/topics/mapping", form)
		consoletest.WantSays(t, "the page", w, http.StatusConflict, "replaced meanwhile", "b-&gt;c", "bob &lt;script", "version 5", "<li><code>bobs</code>",
			"<del>bobs -&gt; &lt;script", "<ins>b -&gt; c</ins>", "<span>payments.* -&gt; payments.events.v1</span>", `name="version" value="5"`,
			"Replace these rules")
		consoletest.WantNoMarkup(t, w.Body.String())
	})
	t.Run("ThatIsNoRuleIsShownWithItsLine", func(t *testing.T) {
		t.Parallel()
		w := consoletest.Post(t, consoletest.Site(t, api(t)), "/topics/mapping", url.Values{"version": {"4"}, "rules": {"a -> b\nnonsense"}})
		consoletest.WantSays(t, "the page", w, http.StatusBadRequest, "line 2: must be PATTERN")
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
	consoletest.WantSays(t, "without a reason", consoletest.Post(t, s, "/quarantine/"+consoletest.QuarantinedID+"/delete", nil), http.StatusBadRequest, "reason: is required")
}
