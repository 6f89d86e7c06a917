package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

const redriveID = "0198a4c2-7e10-7c3a-9d2f-3b1e5a6c7d90"

// aRedrive is a redrive in state canary, with hostile text wherever possible.
const aRedrive = `{"id": "` + redriveID + `", "action": "retry", "state": "canary", "note": "HOSTILE", "actor": "HOSTILE", "reason": "HOSTILE",
	"selection": {"by": "filter", "filter": {"topic": "HOSTILE", "status": ["PENDING"], "group_id": "HOSTILE", "created_before": "2026-02-20T12:00:03.000+00:00",
	 "key": "", "header": ["HOSTILE"], "payload": ["HOSTILE"], "q": "HOSTILE"}},
	"options": {"canary": 1, "canary_wait": "1m0s", "rate": 0.5, "max_failure_share": 0.1, "max_return_share": null, "min_sample": 20,
	 "keep_key_order": true, "requeue": false, "original_topic": null, "patch": [{"op": "add", "path": "/a", "value": "HOSTILE"}]},
	"created_at": "2026-02-20T11:30:00.000+00:00", "updated_at": "2026-02-20T11:30:00.000+00:00", "ended_at": null,
	"selected": 12431, "succeeded": 1, "failed": 3, "dead": 2, "in_doubt": 0, "skipped": 4, "waiting": 12423, "under_way": 5, "returned": 1,
	"reasons": {"taken": 1, "patch_failed": 3, "HOSTILE": 3}, "progress": 0.0006, "rate": 0.2, "seconds_left": 7200, "waiting_since": "2026-02-20T11:59:00.000+00:00",
	"outcomes": {"published": 3, "consumed": 2, "returned": 1}}`

const someItems = `{"items": [
	{"number": 0, "id": "550e8400-e29b-41d4-a716-446655440000", "result": "succeeded", "reason": null, "topic": "HOSTILE", "partition": 0, "offset": 0, "outcome": "returned"},
	{"number": 1, "id": "550e8400-e29b-41d4-a716-446655440001", "result": "skipped", "reason": "HOSTILE", "topic": null, "partition": null, "offset": null, "outcome": null},
	{"number": 2, "id": "550e8400-e29b-41d4-a716-446655440002", "result": "skipped", "reason": "taken", "topic": null, "partition": null, "offset": null, "outcome": null}
], "next_cursor": "n+1"}`

func redriveAPI(t *testing.T) *anAPI {
	t.Helper()
	return newAPI(t).
		says("GET /api/v1/redrives", quoted(`{"redrives": [`+aRedrive+`], "next_cursor": "n"}`)).
		says("GET /api/v1/redrives/"+redriveID, quoted(aRedrive)).
		says("GET /api/v1/redrives/"+redriveID+"/items", quoted(someItems))
}

func TestRedrives(t *testing.T) {
	t.Parallel()
	const list, one = "GET /api/v1/redrives", "GET /api/v1/redrives/" + redriveID
	over := strings.NewReplacer(`"canary", "note"`, `"finished", "note"`, `"ended_at": null`,
		`"ended_at": "2026-02-20T11:00:00.000+00:00"`).Replace(aRedrive)
	wrong := refusal{http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR", "state: must be one of", nil}
	shows(t, redriveAPI, map[string]look{
		"ListsTheLastOnes": {path: "/redrives?state=canary", lacks: []string{"only your own"}, has: []string{
			"Retry 12,431 messages", "8 of 12,431, about 2 h left", `value="0.0006"`, "cursor=n&amp;state=canary", `hx-get="/redrives?state=canary"`,
		}},
		"SaysWhoseTheyAre": {
			path: "/redrives", says: answers{"GET /api/v1/session": withRole("operator", "orders.*")},
			has: []string{"You see only your own."},
		},
		"RestsWhenNothingRuns": {
			path: "/redrives",
			says: answers{list: raw(`{"redrives": [{"id": "x", "action": "dead", "state": "finished"}]}`)}, lacks: []string{"hx-get"},
		},
		"SaysHowToBegin": {
			path: "/redrives", says: answers{list: raw(`{"redrives": []}`), "GET /api/v1/session": readOnly},
			has: []string{"There are no redrives yet", "<button disabled>Start a redrive</button>", "needs the role operator"},
		},
		"SaysWhatIsWrongWithTheAddress": {
			path: "/redrives?state=" + url.QueryEscape(hostile), says: answers{list: wrong}, status: http.StatusBadRequest,
			has: []string{"state: must be one of"},
		},
		"TellsHowFarOneIs": {path: "/redrives/" + redriveID + "?result=skipped", has: []string{
			"Retry 12,431 messages", "&lt; 1 %", "8 of 12,431", "about 2 h left", "12 a minute", "1 message was sent first",
			"has not failed again for 1m.", "Waiting since", "failed, 2 dead", "waiting, 5 under way", "the patch does not apply to it",
			"another attempt is under way", `hx-get="/redrives/` + redriveID + `?seen=canary" hx-trigger="every 2s"`,
			`id="back-550e8400-e29b-41d4-a716-446655440000"`, "stop when more than 10 % fail", "at most 0.5 a second", "in the order of each key",
			"2026-02-20 12:00:03 UTC", "cursor=n%2B1&amp;result=skipped#items", "/audit?kind=redrive&amp;object_id=" + redriveID, "partition 0",
			"offset 0",
		}},
		"OneThatIsOverRests": {
			path: "/redrives/" + redriveID, says: answers{one: quoted(over)}, has: []string{"<button disabled>Pause</button>", "it is finished"},
			lacks: []string{"hx-get"},
		},
		"ShowsViewersWhyTheyCannotMoveOne": {path: "/redrives/" + redriveID, says: answers{"GET /api/v1/session": readOnly}, has: []string{
			"<button disabled>Pause</button>", "<button disabled>Resume</button>", "<button disabled>Cancel</button>", "needs the role operator",
		}},
		"SaysWhatIsWrongWithTheAddressOfOne": {
			path: "/redrives/" + redriveID + "?result=bogus", says: answers{one + "/items": wrong}, status: http.StatusBadRequest,
			has: []string{"state: must be one of", "Retry 12,431"},
		},
	})
	a := redriveAPI(t)
	get(t, site(t, a), "/redrives?state=canary")
	wantAsked(t, a, list, "limit=25&state=canary")
	get(t, site(t, a), "/redrives/"+redriveID+"?result=skipped")
	wantAsked(t, a, one+"/items", "limit=50&result=skipped")
}

func TestRedriveMoves(t *testing.T) {
	t.Parallel()
	for move, done := range map[string]string{"pause": "paused", "resume": "resumed", "cancel": "cancelled"} {
		a := newAPI(t).says("POST /api/v1/redrives/"+redriveID+"/"+move, raw(`{}`))
		w := post(t, site(t, a), "/redrives/"+redriveID+"/"+move, url.Values{"key": {"k1"}, "reason": {"looks wrong"}})
		wantDone(t, move, w, done, "/redrives/"+redriveID)
		wantSent(t, a, "POST /api/v1/redrives/"+redriveID+"/"+move, `{"reason":"looks wrong"}`, "") // no idempotency key: an earlier answer must not be repeated
	}
	a := redriveAPI(t).says("POST /api/v1/redrives/"+redriveID+"/pause", refusal{
		http.StatusConflict, "SYS_DLQ_CONFLICT",
		"the redrive cannot become paused", nil,
	})
	w := post(t, site(t, a), "/redrives/"+redriveID+"/pause", url.Values{"reason": {"mine" + hostile}})
	wantSays(t, "a refused move", w, http.StatusConflict, "cannot become paused", `value="mine&lt;script`,
		`hx-get="/redrives/`+redriveID+`?seen=`, `<details class="act" open>`)
	wantNoMarkup(t, w.Body.String())
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
		a := redriveAPI(t).says("GET /api/v1/redrives/"+redriveID, quoted(strings.Replace(aRedrive, `"canary", "note"`, `"`+c.state+`", "note"`, 1))).
			says("POST /api/v1/redrives/"+redriveID+"/"+c.move, refusal{http.StatusConflict, "SYS_DLQ_CONFLICT", "it cannot become that", nil})
		w := post(t, site(t, a), "/redrives/"+redriveID+"/"+c.move, nil)
		if w.Code == http.StatusSeeOther != c.done || !c.done && w.Code != http.StatusConflict {
			t.Errorf("%s: got %d, want it taken as done: %t", name, w.Code, c.done)
		}
	}
}

func TestRedriveIsLookedAt(t *testing.T) {
	t.Parallel()
	returning := redriveState{State: "finished", EndedAt: noon.Add(-time.Minute)}
	returning.Outcomes.Published = 1
	for name, c := range map[string]struct {
		is   redriveState
		want string
	}{
		"OftenWhileItRuns":          {redriveState{State: "running"}, "every 2s"},
		"OftenWhileItsCanaryIsOut":  {redriveState{State: "canary"}, "every 2s"},
		"SeldomWhileItIsPaused":     {redriveState{State: "paused"}, "every 15s"},
		"SeldomWhenItStoppedItself": {redriveState{State: "stopped"}, "every 15s"},
		"WhileSomethingMayComeBack": {returning, "every 5s"},
		"NoMoreWhenAllIsKnown":      {redriveState{State: "finished", EndedAt: noon.Add(-time.Minute)}, ""},
		"NoMoreAfterLong":           {redriveState{State: "cancelled", InDoubt: 1, EndedAt: noon.Add(-time.Hour)}, ""},
	} {
		if got := c.is.Every(noon); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestRedriveWords(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		waitWords("1m0s"): "1m", waitWords("1h0m0s"): "1h", waitWords("1m30s"): "1m30s", waitWords("10s"): "10s", waitWords("x"): "x",
		sharePercent(0.1): "10", sharePercent(0.125): "12.5", reasonWords("gone"): "it no longer exists, or you may not change it", reasonWords("X"): "X",
		momentWords("2026-02-20T13:00:03.5+01:00"): "2026-02-20 12:00:03.500 UTC", momentWords("soon"): "soon",
		redriveState{Rate: 0.5}.Speed(): "30 a minute", redriveState{Rate: 1234.5}.Speed(): "1,234 a second", redriveState{}.Speed(): "",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
