package redrive_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/consoletest"
)

func TestRedrives(t *testing.T) {
	t.Parallel()
	const list, one = "GET /api/v1/redrives", "GET /api/v1/redrives/" + consoletest.RedriveID
	over := strings.NewReplacer(`"canary", "note"`, `"finished", "note"`, `"ended_at": null`,
		`"ended_at": "2026-02-20T11:00:00.000+00:00"`).Replace(consoletest.ARedrive)
	cancelled := strings.NewReplacer(`"finished", "note"`, `"cancelled", "note"`, `"under_way": 5`, `"under_way": 0, "not_sent": 12423`).Replace(over)
	const aWaitingItem = `{"items": [{"number": 8, "id": "550e8400-e29b-41d4-a716-446655440000", "result": "waiting", "reason": null, "topic": null, "partition": null, "offset": null, "outcome": null}], "next_cursor": null}`
	wrong := consoletest.Refuse(http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR", "state: must be one of", nil)
	away := consoletest.Refuse(http.StatusServiceUnavailable, "X", "away", nil)
	consoletest.Shows(t, consoletest.RedriveAPI, map[string]consoletest.Look{
		"ListsTheLastOnes": {Path: "/redrives?state=canary", Lacks: []string{"only your own"}, Has: []string{
			"Retry 12,431 messages", "8 of 12,431, about 2 h left", `value="0.0006"`,
			"<strong>1</strong> published", "<strong>1</strong> of them failed again", "<strong>3</strong> failed", `href="/groups/` + consoletest.GroupID + `">&lt;script`, "cursor=n&amp;state=canary", `hx-get="/redrives?state=canary"`,
		}},
		"SaysWhoseTheyAre": {
			Path: "/redrives", Says: consoletest.Answers{"GET /api/v1/session": consoletest.WithRole("operator", "orders.*")},
			Has: []string{"You see only your own."},
		},
		"RestsWhenNothingRuns": {
			Path: "/redrives",
			Says: consoletest.Answers{list: consoletest.Raw(`{"redrives": [{"id": "x", "action": "dead", "state": "finished"}]}`)}, Lacks: []string{"hx-get"},
		},
		"SaysHowToBegin": {
			Path: "/redrives", Says: consoletest.Answers{list: consoletest.Raw(`{"redrives": []}`), "GET /api/v1/session": consoletest.ReadOnly},
			Has: []string{"There are no redrives yet", "<button disabled>Start a redrive</button>", "needs the role operator"},
		},
		"SaysWhatIsWrongWithTheAddress": {
			Path: "/redrives?state=" + url.QueryEscape(consoletest.Hostile), Says: consoletest.Answers{list: wrong}, Status: http.StatusBadRequest,
			Has: []string{"state: must be one of"},
		},
		"TellsHowFarOneIs": {Path: "/redrives/" + consoletest.RedriveID + "?result=skipped", Has: []string{
			"Retry 12,431 messages", "&lt; 1 %", "8 of 12,431", "about 2 h left", "12 a minute", "1 message was sent first",
			"has not failed again for 1m.", "Waiting since", "failed, 2 dead", "waiting, 5 under way", "the patch does not apply to it",
			"another attempt is under way", `hx-get="/redrives/` + consoletest.RedriveID + `?result=skipped" hx-trigger="every 2s"`,
			"of the group <a", `href="/groups/` + consoletest.GroupID + `">&lt;script`,
			`<strong class="wrong">300</strong> <a id="error-` + consoletest.GroupID + `" href="/groups/` + consoletest.GroupID + `">&lt;script`,
			`<span class="badge returned">failed again</span>`, `<span class="mono" title="">&lt;script`, "deleted, archived, or not shown", "alice &lt;script",
			"started a redrive over 9 of these 2 min ago", "<noscript>", `<button class="first">Pause</button>`, "stop when more than 10 % fail", "at most 0.5 a second", "in the order of each key",
			"2026-02-20 12:00:03 UTC", "cursor=n%2B1&amp;result=skipped#items", "/audit?kind=redrive&amp;object_id=" + consoletest.RedriveID, "partition 0",
			"offset 0",
		}},
		"SaysWhyPartsAreMissing": {
			Path: "/redrives/" + consoletest.RedriveID, Says: consoletest.Answers{one + "/errors": away, one + "/overlaps": away},
			Has: []string{"Retry 12,431", "Other redrives of these messages: – (not known: away)", "failed again</h2><p class=\"small aside\">– (not known: away)", `<span class="badge returned">`},
		},
		"SaysHowManyErrorsAreCounted": {
			Path: "/redrives/" + consoletest.RedriveID, Says: consoletest.Answers{one: consoletest.Quoted(strings.Replace(consoletest.ARedrive, `"under_way": 5, "returned": 1`, `"under_way": 5, "returned": 90000`, 1))},
			Has: []string{"Of the newest 5,000 that failed again."},
		},
		"OneThatIsOverRests": {
			Path: "/redrives/" + consoletest.RedriveID, Says: consoletest.Answers{one: consoletest.Quoted(over)}, Has: []string{`<span class="badge caution">finished</span>`},
			Lacks: []string{"hx-get", "Pause", "Resume", "Cancel"},
		},
		"OneThatWasCancelledWaitsForNothing": {
			Path: "/redrives/" + consoletest.RedriveID, Says: consoletest.Answers{one: consoletest.Quoted(cancelled), one + "/items": consoletest.Raw(aWaitingItem)},
			Has:   []string{"<dt>not sent</dt><dd>12,423</dd>", `<span class="badge not_sent">not sent</span>`, `result=waiting#items">not sent</a>`, "ended "},
			Lacks: []string{"waiting</dt>", ">waiting<", "a minute", "pauses included"},
		},
		"OneThatWasCancelledHasMessagesUnderWay": {
			Path: "/redrives/" + consoletest.RedriveID, Says: consoletest.Answers{one: consoletest.Quoted(strings.NewReplacer(
				`"under_way": 0`, `"under_way": 5`, `"not_sent": 12423`, `"not_sent": 12418`).Replace(cancelled)), one + "/items": consoletest.Raw(aWaitingItem)},
			Has: []string{"<dt>not sent, 5 under way</dt><dd>12,418</dd>", `<span class="badge waiting">waiting</span>`, `hx-trigger="every 5s"`},
		},
		"ListSaysWhatWasNotSent": {
			Path: "/redrives", Says: consoletest.Answers{list: consoletest.Raw(`{"redrives": [{"id": "x", "action": "retry", "state": "cancelled", "selected": 600, "waiting": 599, "not_sent": 599, "succeeded": 1},
				{"id": "y", "action": "dead", "state": "cancelled", "selected": 9, "waiting": 8, "not_sent": 8, "succeeded": 1}]}`)},
			Has: []string{"<strong>599</strong> not sent", "<strong>8</strong> not processed"}, Lacks: []string{"waiting"},
		},
		"ShowsViewersWhyTheyCannotMoveOne": {Path: "/redrives/" + consoletest.RedriveID, Says: consoletest.Answers{"GET /api/v1/session": consoletest.ReadOnly}, Has: []string{
			"<button disabled>Pause</button>", "<button disabled>Cancel</button>", "needs the role operator",
		}},
		"SaysWhatIsWrongWithTheAddressOfOne": {
			Path: "/redrives/" + consoletest.RedriveID + "?result=bogus", Says: consoletest.Answers{one + "/items": wrong}, Status: http.StatusBadRequest,
			Has: []string{"state: must be one of", "Retry 12,431"},
		},
	})
	a := consoletest.RedriveAPI(t)
	consoletest.Get(t, consoletest.Site(t, a), "/redrives?state=canary")
	consoletest.WantAsked(t, a, list, "limit=25&state=canary")
	consoletest.Get(t, consoletest.Site(t, a), "/redrives/"+consoletest.RedriveID+"?result=skipped")
	consoletest.WantAsked(t, a, one+"/items", "limit=50&result=skipped")
}

func TestRedriveMoves(t *testing.T) {
	t.Parallel()
	for move, done := range map[string]string{"pause": "paused", "resume": "resumed", "continue": "continued", "cancel": "cancelled"} {
		a := consoletest.NewAPI(t).Says("POST /api/v1/redrives/"+consoletest.RedriveID+"/"+move, consoletest.Raw(`{}`))
		w := consoletest.Post(t, consoletest.Site(t, a), "/redrives/"+consoletest.RedriveID+"/"+move, url.Values{"key": {"k1"}, "reason": {"looks wrong"}})
		consoletest.WantDone(t, move, w, done, "/redrives/"+consoletest.RedriveID)
		// without an idempotency key, or the API would repeat an earlier answer
		consoletest.WantSent(t, a, "POST /api/v1/redrives/"+consoletest.RedriveID+"/"+move, `{"reason":"looks wrong"}`, "")
	}
	a := consoletest.RedriveAPI(t).Says("POST /api/v1/redrives/"+consoletest.RedriveID+"/pause", consoletest.Refuse(
		http.StatusConflict, "SYS_DLQ_CONFLICT",
		"the redrive cannot become paused", nil,
	))
	w := consoletest.Post(t, consoletest.Site(t, a), "/redrives/"+consoletest.RedriveID+"/pause", url.Values{"reason": {"mine" + consoletest.Hostile}})
	consoletest.WantSays(t, "a refused move", w, http.StatusOK, "cannot become paused", `value="mine&lt;script`,
		`placeholder="reason, optional"`)
	consoletest.WantNoMarkup(t, w.Body.String())
}

func TestRedriveMoves_ThatWereMadeAlreadyAreDone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		move, state string
		done        bool
	}{
		"PauseOfWhatIsPaused": {"pause", "paused", true}, "ResumeOfWhatRuns": {"resume", "running", true}, "ResumeOfWhatIsInItsCanary": {"resume", "canary", true},
		"CancelOfWhatIsCancelled": {"cancel", "cancelled", true}, "PauseOfWhatStopped": {"pause", "stopped", false}, "CancelOfWhatIsFinished": {"cancel", "finished", false},
	} {
		a := consoletest.RedriveAPI(t).Says("GET /api/v1/redrives/"+consoletest.RedriveID, consoletest.Quoted(strings.Replace(consoletest.ARedrive, `"canary", "note"`, `"`+c.state+`", "note"`, 1))).
			Says("POST /api/v1/redrives/"+consoletest.RedriveID+"/"+c.move, consoletest.Refuse(http.StatusConflict, "SYS_DLQ_CONFLICT", "it cannot become that", nil))
		w := consoletest.Post(t, consoletest.Site(t, a), "/redrives/"+consoletest.RedriveID+"/"+c.move, nil)
		if said := strings.Contains(w.Body.String(), "It cannot become that") || strings.Contains(w.Body.String(), "it cannot become that"); said == c.done {
			t.Errorf("%s: got the refusal shown: %t, want it taken as done: %t", name, said, c.done)
		}
	}
}

// The page offers only the changes that the redrive's state allows. Pause, and Resume of a paused redrive, take one
// click.
func TestRedriveMoves_ThatTheStateAllows(t *testing.T) {
	t.Parallel()
	for state, c := range map[string]struct{ atOnce, explained []string }{
		"canary": {[]string{"pause"}, []string{"cancel"}}, "running": {[]string{"pause"}, []string{"cancel"}},
		"paused": {[]string{"resume"}, []string{"cancel"}}, "stopped": {nil, []string{"resume", "cancel"}},
		"cancelled": {}, "finished": {},
	} {
		a := consoletest.RedriveAPI(t).Says("GET /api/v1/redrives/"+consoletest.RedriveID,
			consoletest.Quoted(strings.Replace(consoletest.ARedrive, `"canary", "note"`, `"`+state+`", "note"`, 1)))
		body := consoletest.Get(t, consoletest.Site(t, a), "/redrives/"+consoletest.RedriveID).Body.String()
		for _, move := range []string{"pause", "resume", "cancel"} {
			offered := strings.Contains(body, `action="/redrives/`+consoletest.RedriveID+`/`+move+`"`)
			atOnce := strings.Contains(body, `<form class="at-once" action="/redrives/`+consoletest.RedriveID+`/`+move+`"`)
			if wantAtOnce := slices.Contains(c.atOnce, move); atOnce != wantAtOnce || offered != (wantAtOnce || slices.Contains(c.explained, move)) {
				t.Errorf("%s: %s is offered: %t, by one click: %t", state, move, offered, atOnce)
			}
		}
		if red := strings.Contains(body, "It stopped itself: &lt;script"); red != (state == "stopped") {
			t.Errorf("%s: got the headline of a stop: %t", state, red)
		}
	}
}

// A redrive that waits for outcomes says so for each topic, and offers to go on without them.
func TestRedriveThatWaitsForOutcomes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		state, bounds string
		offered       bool
		says          string
	}{
		"Canary":    {"canary", `null`, true, ""},
		"Full":      {"running", `[{"topic": "orders", "bound": 20, "unknown": 20, "known": 0, "waiting": true, "lifted": null}]`, true, "All 20 messages that may be sent without a known outcome were sent."},
		"Room":      {"running", `[{"topic": "orders", "bound": 40, "unknown": 3, "known": 20, "waiting": false, "lifted": null}]`, false, "3 of at most 40 messages are sent without a known outcome."},
		"Continued": {"running", `[{"topic": "orders", "bound": null, "unknown": 3, "known": 20, "waiting": false, "lifted": "continued"}]`, false, "an operator continued it"},
		"Unbounded": {"running", `null`, false, ""},
		"Paused":    {"paused", `[{"topic": "orders", "bound": 20, "unknown": 20, "known": 0, "waiting": false, "lifted": null}]`, false, ""},
	} {
		said := strings.NewReplacer(`"canary", "note"`, `"`+c.state+`", "note"`, `"outcomes"`, `"bounds": `+c.bounds+`, "outcomes"`).Replace(consoletest.ARedrive)
		a := consoletest.RedriveAPI(t).Says("GET /api/v1/redrives/"+consoletest.RedriveID, consoletest.Quoted(said))
		body := consoletest.Get(t, consoletest.Site(t, a), "/redrives/"+consoletest.RedriveID).Body.String()
		offered := strings.Contains(body, `action="/redrives/`+consoletest.RedriveID+`/continue"`)
		if offered != c.offered || !strings.Contains(body, c.says) {
			t.Errorf("%s: continue is offered: %t, want %t; page says %q: %t", name, offered, c.offered, c.says, strings.Contains(body, c.says))
		}
	}
}

func TestUndoOfMarkedDead(t *testing.T) {
	t.Parallel()
	over := strings.NewReplacer(`"canary", "note"`, `"finished", "note"`, `"action": "retry"`, `"action": "dead"`).Replace(consoletest.ARedrive)
	a := consoletest.RedriveAPI(t).Says("GET /api/v1/redrives/"+consoletest.RedriveID, consoletest.Quoted(over)).
		Says("POST /api/v1/redrives", consoletest.Raw(`{"id": "x"}`)).
		Says("GET /api/v1/redrives/"+consoletest.RedriveID+"/items", consoletest.Raw(`{"items": [{"id": "a"}, {"id": "b"}]}`))
	s := consoletest.Site(t, a)
	consoletest.MustHave(t, consoletest.Get(t, s, "/redrives/"+consoletest.RedriveID).Body.String(), "Undo: requeue the message</button>")
	w := consoletest.Post(t, s, "/redrives/"+consoletest.RedriveID+"/undo", url.Values{"key": {"k"}})
	consoletest.WantDone(t, "undo", w, "undone", "/redrives/x")
	consoletest.WantAsked(t, a, "GET /api/v1/redrives/"+consoletest.RedriveID+"/items", "limit=1000&result=succeeded")
	consoletest.WantSent(t, a, "POST /api/v1/redrives", `{"action":"requeue","ids":["a","b"]}`, "console-k")
}
