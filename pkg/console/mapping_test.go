package console

import (
	"net/http"
	"net/url"
	"testing"
)

const someMapping = `{"version": 4, "updated_at": "2026-02-20T10:30:00.000+00:00", "updated_by": "HOSTILE",
	"rules": [{"pattern": "payments.*", "original": "HOSTILE"}], "configured": [{"pattern": "HOSTILE", "original": "audit"}],
	"unmapped": [{"dlq_topic": "HOSTILE", "messages": 1, "original": null}]}`

func TestMapping(t *testing.T) {
	t.Parallel()
	api := func(t *testing.T) *anAPI {
		t.Helper()
		return newAPI(t).says("GET /api/v1/mappings", quoted(someMapping))
	}
	shows(t, api, map[string]look{
		"IsShown": {path: "/topics/mapping", has: []string{"payments.* -&gt; &lt;script", `name="version" value="4"`}},
		"MayBeReadByViewers": {
			path: "/topics/mapping", says: answers{"GET /api/v1/session": readOnly},
			has: []string{`<button class="first" disabled>`, "needs the role admin on all topics"},
		},
	})
	form := url.Values{
		"version": {"4"}, "rules": {" payments.* -> payments.events.v1 \n\nb->c\n"}, "apply": {"1"}, "reason": {"asked"},
		"key": {"abc"},
	}
	t.Run("IsReplacedOnce", func(t *testing.T) {
		t.Parallel()
		a := newAPI(t).says("PUT /api/v1/mappings", quoted(someMapping))
		wantDone(t, "replacing", post(t, site(t, a), "/topics/mapping", form), "mapped", "/topics/mapping")
		wantSent(t, a, "PUT /api/v1/mappings",
			`{"apply":true,"reason":"asked","rules":[{"pattern":"payments.*","original":"payments.events.v1"},`+
				`{"pattern":"b","original":"c"}],"version":4}`, "console-abc")
	})
	t.Run("ThatSomebodyElseChangedIsAskedAgain", func(t *testing.T) {
		t.Parallel()
		theirs := `{"version": 5, "updated_at": "2026-02-20T11:30:00.000+00:00", "updated_by": "bob HOSTILE",
			"rules": [{"pattern": "payments.*", "original": "payments.events.v1"}, {"pattern": "bobs", "original": "HOSTILE"}], "configured": [], "unmapped": []}`
		a := newAPI(t).says("GET /api/v1/mappings", quoted(theirs)).
			says("PUT /api/v1/mappings", refusal{http.StatusConflict, "SYS_DLQ_CONFLICT", "replaced meanwhile", nil})
		w := post(t, site(t, a), "/topics/mapping", form)
		wantSays(t, "the page", w, http.StatusConflict, "replaced meanwhile", "b-&gt;c", "bob &lt;script", "version 5", "<li><code>bobs</code>",
			"<del>bobs -&gt; &lt;script", "<ins>b -&gt; c</ins>", "<span>payments.* -&gt; payments.events.v1</span>", `name="version" value="5"`,
			"Replace these rules")
		wantNoMarkup(t, w.Body.String())
	})
	t.Run("ThatIsNoRuleIsShownWithItsLine", func(t *testing.T) {
		t.Parallel()
		w := post(t, site(t, api(t)), "/topics/mapping", url.Values{"version": {"4"}, "rules": {"a -> b\nnonsense"}})
		wantSays(t, "the page", w, http.StatusBadRequest, "line 2: must be PATTERN")
	})
}
