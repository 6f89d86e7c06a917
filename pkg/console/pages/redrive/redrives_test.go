package redrive_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/consoletest"
)

func TestRedrives(t *testing.T) {
	t.Parallel()
	const list, one = "GET /api/v1/redrives", "GET /api/v1/redrives/" + consoletest.RedriveID
	over := strings.NewReplacer(`"canary", "note"`, `"finished", "note"`, `"ended_at": null`,
		`"ended_at": "2026-02-20T11:00:00.000+00:00"`).Replace(consoletest.ARedrive)
	wrong := consoletest.Refuse(http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR", "state: must be one of", nil)
	consoletest.Shows(t, consoletest.RedriveAPI, map[string]consoletest.Look{
		"ListsTheLastOnes": {Path: "/redrives?state=canary", Lacks: []string{"only your own"}, Has: []string{
			"Retry 12,431 messages", "8 of 12,431, about 2 h left", `value="0.0006"`, "cursor=n&amp;state=canary", `hx-get="/redrives?state=canary"`,
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
			"another attempt is under way", `hx-get="/redrives/` + consoletest.RedriveID + `?seen=canary" hx-trigger="every 2s"`,
			`id="back-550e8400-e29b-41d4-a716-446655440000"`, "stop when more than 10 % fail", "at most 0.5 a second", "in the order of each key",
			"2026-02-20 12:00:03 UTC", "cursor=n%2B1&amp;result=skipped#items", "/audit?kind=redrive&amp;object_id=" + consoletest.RedriveID, "partition 0",
			"offset 0",
		}},
		"OneThatIsOverRests": {
			Path: "/redrives/" + consoletest.RedriveID, Says: consoletest.Answers{one: consoletest.Quoted(over)}, Has: []string{"<button disabled>Pause</button>", "it is finished"},
			Lacks: []string{"hx-get"},
		},
		"ShowsViewersWhyTheyCannotMoveOne": {Path: "/redrives/" + consoletest.RedriveID, Says: consoletest.Answers{"GET /api/v1/session": consoletest.ReadOnly}, Has: []string{
			"<button disabled>Pause</button>", "<button disabled>Resume</button>", "<button disabled>Cancel</button>", "needs the role operator",
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
	for move, done := range map[string]string{"pause": "paused", "resume": "resumed", "cancel": "cancelled"} {
		a := consoletest.NewAPI(t).Says("POST /api/v1/redrives/"+consoletest.RedriveID+"/"+move, consoletest.Raw(`{}`))
		w := consoletest.Post(t, consoletest.Site(t, a), "/redrives/"+consoletest.RedriveID+"/"+move, url.Values{"key": {"k1"}, "reason": {"looks wrong"}})
		consoletest.WantDone(t, move, w, done, "/redrives/"+consoletest.RedriveID)
		consoletest.WantSent(t, a, "POST /api/v1/redrives/"+consoletest.RedriveID+"/"+move, `{"reason":"looks wrong"}`, "") // no idempotency key: an earlier answer must not be repeated
	}
	a := consoletest.RedriveAPI(t).Says("POST /api/v1/redrives/"+consoletest.RedriveID+"/pause", consoletest.Refuse(
		http.StatusConflict, "SYS_DLQ_CONFLICT",
		"the redrive cannot become paused", nil,
	))
	w := consoletest.Post(t, consoletest.Site(t, a), "/redrives/"+consoletest.RedriveID+"/pause", url.Values{"reason": {"mine" + consoletest.Hostile}})
	consoletest.WantSays(t, "a refused move", w, http.StatusConflict, "cannot become paused", `value="mine&lt;script`,
		`hx-get="/redrives/`+consoletest.RedriveID+`?seen=`, `<details class="act" open>`)
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
		if w.Code == http.StatusSeeOther != c.done || !c.done && w.Code != http.StatusConflict {
			t.Errorf("%s: got %d, want it taken as done: %t", name, w.Code, c.done)
		}
	}
}
