package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

const someMapping = `{"version": 4, "updated_at": "2026-02-20T10:30:00.000+00:00", "updated_by": "HOSTILE",
	"rules": [{"pattern": "payments.*", "original": "HOSTILE"}], "configured": [{"pattern": "HOSTILE", "original": "audit"}],
	"unmapped": [{"dlq_topic": "HOSTILE", "messages": 1, "original": null}]}`

func TestMapping(t *testing.T) {
	t.Parallel()
	form := url.Values{"version": {"4"}, "rules": {" payments.* -> payments.events.v1 \n\nb->c\n"}, "apply": {"1"}, "reason": {"asked"}, "key": {"abc"}}

	t.Run("IsShown", func(t *testing.T) {
		t.Parallel()
		body := get(t, site(t, newAPI(t).says("GET /api/v1/mappings", quoted(someMapping))), "/topics/mapping").Body.String()
		if !strings.Contains(body, "payments.* -&gt; &lt;script") || !strings.Contains(body, `name="version" value="4"`) {
			t.Errorf("got %s, want the rules and their version", body)
		}
		wantNoMarkup(t, body)
	})
	t.Run("IsReplacedOnce", func(t *testing.T) {
		t.Parallel()
		a := newAPI(t).says("PUT /api/v1/mappings", quoted(someMapping))
		w := post(t, site(t, a), "/topics/mapping", form)
		wantDone(t, "replacing", w, "mapped", "/topics/mapping")
		requests, bodies := a.wasAsked("PUT /api/v1/mappings")
		want := `{"apply":true,"reason":"asked","rules":[{"pattern":"payments.*","original":"payments.events.v1"},{"pattern":"b","original":"c"}],"version":4}`
		if len(bodies) != 1 || bodies[0] != want || requests[0].Header.Get("Idempotency-Key") != "console-abc" {
			t.Errorf("got %q with %v, want %q with the form's key", bodies, requests[0].Header, want)
		}
	})
	t.Run("ThatSomebodyElseChangedIsAskedAgain", func(t *testing.T) {
		t.Parallel()
		theirs := `{"version": 5, "updated_at": "2026-02-20T11:30:00.000+00:00", "updated_by": "bob HOSTILE",
			"rules": [{"pattern": "payments.*", "original": "payments.events.v1"}, {"pattern": "bobs", "original": "HOSTILE"}], "configured": [], "unmapped": []}`
		a := newAPI(t).says("GET /api/v1/mappings", quoted(theirs)).
			says("PUT /api/v1/mappings", refusal{http.StatusConflict, "SYS_DLQ_CONFLICT", "somebody was faster", nil})
		w := post(t, site(t, a), "/topics/mapping", form)
		body := w.Body.String()
		if w.Code != http.StatusConflict || !strings.Contains(body, "somebody was faster") || !strings.Contains(body, "b-&gt;c") {
			t.Errorf("got %d %s, want 409, why, and what was written", w.Code, body)
		}
		wantIn(t, body, "bob &lt;script", "version 5", "<li><code>bobs</code>", "<del>bobs -&gt; &lt;script", "<ins>b -&gt; c</ins>",
			"<span>payments.* -&gt; payments.events.v1</span>", `name="version" value="5"`, "Replace these rules")
		wantNoMarkup(t, body)
	})
	t.Run("ThatIsNoRuleIsShownWithItsLine", func(t *testing.T) {
		t.Parallel()
		a := newAPI(t).says("GET /api/v1/mappings", quoted(someMapping))
		w := post(t, site(t, a), "/topics/mapping", url.Values{"version": {"4"}, "rules": {"a -> b\nnonsense"}})
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "line 2: must be PATTERN") {
			t.Errorf("got %d %s, want 400 and the line", w.Code, w.Body)
		}
	})
	t.Run("MayBeReadByViewers", func(t *testing.T) {
		t.Parallel()
		a := newAPI(t).says("GET /api/v1/mappings", quoted(someMapping)).
			says("GET /api/v1/session", viewer{Name: "v", Mode: "token", Grants: []grant{{"viewer", []string{"*"}}}})
		body := get(t, site(t, a), "/topics/mapping").Body.String()
		if !strings.Contains(body, `<button class="first" disabled>`) || !strings.Contains(body, "needs the role admin on all topics") {
			t.Errorf("got %s, want a button that says why it cannot be used", body)
		}
	})
}
