package groups_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/consoletest"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/session"
)

const aGroupsMessages = `{"messages": [
	{"id": "HOSTILE", "original_topic": "HOSTILE", "status": "PENDING", "error_message": "HOSTILE", "cause": "HOSTILE", "created_at": "2026-02-20T11:29:00.000+00:00",
	 "headers": [{"key": "HOSTILE", "value": null}, {"key": "App-Version", "value": {"encoding": "utf8", "data": "HOSTILE"}}]},
	{"id": "b", "original_topic": "", "status": "DEAD", "error_message": "", "created_at": "2026-02-20T11:28:00.000+00:00",
	 "headers": [{"key": "version", "value": {"encoding": "utf8", "data": "1.4.2"}}]},
	{"id": "c", "original_topic": "orders", "status": "DEAD", "error_message": "", "created_at": "2026-02-20T09:00:00.000+00:00",
	 "headers": [{"key": "version", "value": {"encoding": "utf8", "data": "1.4.2"}}]},
	{"id": "d", "original_topic": "orders", "status": "DEAD", "error_message": "", "created_at": "2026-02-20T08:00:00.000+00:00", "headers": null}
], "next_cursor": null}`

func groupAPI(t *testing.T) *consoletest.API {
	t.Helper()
	return consoletest.NewAPI(t).
		Says("GET /api/v1/groups", consoletest.Quoted(`{"groups": [`+strings.NewReplacer(consoletest.GroupID, "650ee99a-d1c9-8faa-8ea2-3653afc64200",
			"java.net.SocketTimeoutException", "a.Quiet", `"regressed": true`, `"regressed": false`).Replace(consoletest.AGroup)+`,`+consoletest.AGroup+`], "next_cursor": "on and on"}`)).
		Says("GET /api/v1/groups/"+consoletest.GroupID, consoletest.Quoted(consoletest.AGroup)).
		Says("GET /api/v1/messages", consoletest.Quoted(aGroupsMessages))
}

func TestGroups(t *testing.T) {
	t.Parallel()
	consoletest.Shows(t, groupAPI, map[string]consoletest.Look{
		"AreShown": {Path: "/groups", Has: []string{
			`class="tag regressed"`, "12,002", "20,000", "+43", "7 arrivals in 24 hours, at most 7 in 1 h", "cursor=on&#43;and&#43;on", "69 %",
			"unknown origin", "arrivals from 11:45 to 11:59 UTC",
		}},
		"ShowADashForArrivalsThatAreNotCounted": {
			Path: "/groups", Says: consoletest.Answers{"GET /api/v1/groups": consoletest.Raw(`{"groups": [{"id": "` + consoletest.GroupID + `", "recent": {"since": "2026-02-20T11:45:00.000+00:00", "arrived": null, "counted_until": null, "minutes": []}}]}`)},
			Has: []string{`title="not known: not counted yet">–`},
		},
		"SayWhatIsWrongWithTheAddress": {
			Path:   "/groups?sort=" + url.QueryEscape(consoletest.Hostile) + "&topic=" + url.QueryEscape(consoletest.Hostile),
			Says:   consoletest.Answers{"GET /api/v1/groups": consoletest.Refuse(http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR", "sort: must be one of last_seen", nil)},
			Status: http.StatusBadRequest, Has: []string{"sort: must be one of last_seen", `value="&lt;script&gt;`},
		},
		"SayThatThereAreNone": {Path: "/groups", Says: consoletest.Answers{"GET /api/v1/groups": consoletest.Raw(`{"groups": []}`)}, Has: []string{"No messages are open"}},
		"SayThatATopicHasNone": {
			Path: "/groups?topic=x", Says: consoletest.Answers{"GET /api/v1/groups": consoletest.Raw(`{"groups": []}`)},
			Has: []string{"No group of this topic is among the open ones"},
		},
	})
	a := groupAPI(t)
	body := consoletest.Get(t, consoletest.Site(t, a), "/groups").Body.String()
	if first, second := strings.Index(body, ">a.Quiet<"), strings.Index(body, ">java.net.SocketTimeoutException<"); first < 0 || first > second {
		t.Errorf("got %d for the first group of the API and %d for the second, want the API's order", first, second)
	}
	consoletest.WantAsked(t, a, "GET /api/v1/groups", "limit=50&sort=last_seen&status=PENDING%2CRETRYING&trend=24h")
	consoletest.Get(t, consoletest.Site(t, a), "/groups?show=regressed&sort=recent")
	consoletest.WantAsked(t, a, "GET /api/v1/groups", "limit=50&regressed=true&sort=recent&status=PENDING%2CRETRYING&trend=24h")
	consoletest.Get(t, consoletest.Site(t, a), "/groups?topic=a%2Fb&sort=open&trend=7d&open=false&cursor=x")
	consoletest.WantAsked(t, a, "GET /api/v1/groups", "cursor=x&limit=50&sort=open&topic=a%2Fb&trend=7d")
}

func TestGroup(t *testing.T) {
	t.Parallel()
	some := session.Viewer{Name: "ann", Grants: []session.Grant{{Role: "viewer", Topics: []string{"*"}}, {Role: "operator", Topics: []string{"orders.*"}}}}
	alike := consoletest.Raw(`{"id":"` + consoletest.GroupID + `","annotations":[{"topic":null,"note":"x","link":null,"muted":true}]}`)
	consoletest.Shows(t, groupAPI, map[string]consoletest.Look{
		"SaysWhatItIsAndWhatCanBeDone": {Path: "/groups/" + consoletest.GroupID, Has: []string{
			"12,000", "By header, of all 4 messages", "1.4.2", "50 %", "no such header", "25 %", "action=retry&amp;group_id=" + consoletest.GroupID,
			"Sends the 12,000 pending messages back", "Removes the 12,006 messages", "header=version%3D1.4.2", "7 arrivals in 7 days",
			"By topic", `<th scope="row">all others</th>`, "Saving replaces this",
		}},
		"ShowsViewersWhyTheyCannot": {
			Path: "/groups/" + consoletest.GroupID, Says: consoletest.Answers{"GET /api/v1/session": consoletest.ReadOnly}, Lacks: []string{"/redrives/new?"},
			Has: []string{"<button disabled>Retry …</button>", "needs the role operator", "needs the role admin", "<button disabled>Save</button>"},
		},
		"LetsThosePassWhoMayOnOneOfItsTopics": {Path: "/groups/" + consoletest.GroupID, Says: consoletest.Answers{"GET /api/v1/session": some}, Has: []string{
			"action=retry", "<button disabled>Delete …</button>", "<button>Save</button>", "Makes those of the 1 dead message in",
			"Sends those of the 12,000 pending messages in orders.events.v1 back to the topics where they failed",
			"Marks those of the 12,000 pending messages in orders.events.v1 dead",
		}},
		"IsThereWithoutItsMessages": {
			Path: "/groups/" + consoletest.GroupID, Has: []string{"could not be read: later, please"},
			Says: consoletest.Answers{"GET /api/v1/messages": consoletest.Refuse(http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE", "later, please", nil)},
		},
		"IsNotThere": {
			Path: "/groups/x", Status: http.StatusNotFound, Has: []string{"no such group"},
			Says: consoletest.Answers{"GET /api/v1/groups/x": consoletest.Refuse(http.StatusNotFound, "SYS_DLQ_NOT_FOUND", "no such group", nil)},
		},
		"HasOneNoteForAllTopics": {
			Path: "/groups/" + consoletest.GroupID, Says: consoletest.Answers{"GET /api/v1/groups/" + consoletest.GroupID: alike},
			Lacks: []string{"By topic"},
		},
	})
}

func TestGroupNote(t *testing.T) {
	t.Parallel()
	const note = "PATCH /api/v1/groups/" + consoletest.GroupID
	a := groupAPI(t).Says(note, consoletest.Raw(`{}`))
	s := consoletest.Site(t, a)
	form := url.Values{"key": {"k"}, "note": {"one\r\ntwo"}, "link": {""}, "muted": {"on"}}
	consoletest.WantDone(t, "noting", consoletest.Post(t, s, "/groups/"+consoletest.GroupID+"/note", form), "noted", "/groups/"+consoletest.GroupID)
	consoletest.WantSent(t, a, note, `{"link":null,"muted":true,"note":"one\ntwo"}`, "")
	a.Says(note, consoletest.Refuse(http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR", "link: must be an address", nil))
	w := consoletest.Post(t, s, "/groups/"+consoletest.GroupID+"/note", url.Values{"note": {"mine" + consoletest.Hostile}, "link": {"ftp://x"}})
	consoletest.WantSays(t, "a refused note", w, http.StatusOK, "link: must be an address", ">mine&lt;script", `value="ftp://x"`)
	consoletest.WantNoMarkup(t, w.Body.String())
}
