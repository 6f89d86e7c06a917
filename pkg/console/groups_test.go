package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

const groupID = "650ee99a-d1c9-8faa-8ea2-3653afc6425f"

// aGroup is a group as the API returns it, with hostile text wherever possible.
const aGroup = `{"id": "` + groupID + `", "class": "java.net.SocketTimeoutException", "title": "HOSTILE", "frames": ["HOSTILE"], "rule": "HOSTILE",
	"first_seen_at": "2026-02-19T10:29:00.000+00:00", "last_seen_at": "2026-02-20T11:29:00.000+00:00", "regressed_at": "2026-02-20T11:00:00.000+00:00",
	"new": false, "regressed": true, "counts": {"DEAD": 1, "PENDING": 12000, "RESOLVED": 5, "RETRYING": 2}, "open": 12003, "arrived": 20000,
	"topics": [{"topic": "HOSTILE", "messages": 3}, {"topic": "orders.events.v1", "messages": 9}, {"topic": "", "messages": 1}],
	"trend": [{"hour": "2026-02-20T11:00:00.000+00:00", "messages": 7}], "note": "HOSTILE", "link": "javascript:alert(1)", "muted": false,
	"annotations": [{"topic": null, "note": null, "link": null, "muted": true}, {"topic": "HOSTILE", "note": "HOSTILE", "link": "HOSTILE", "muted": false}]}`

const aGroupsMessages = `{"messages": [
	{"id": "HOSTILE", "original_topic": "HOSTILE", "status": "PENDING", "error_message": "HOSTILE", "created_at": "2026-02-20T11:29:00.000+00:00",
	 "headers": [{"key": "HOSTILE", "value": null}, {"key": "App-Version", "value": {"encoding": "utf8", "data": "HOSTILE"}}]},
	{"id": "b", "original_topic": "", "status": "DEAD", "error_message": "", "created_at": "2026-02-20T11:28:00.000+00:00",
	 "headers": [{"key": "version", "value": {"encoding": "utf8", "data": "1.4.2"}}]},
	{"id": "c", "original_topic": "orders", "status": "DEAD", "error_message": "", "created_at": "2026-02-20T09:00:00.000+00:00",
	 "headers": [{"key": "version", "value": {"encoding": "utf8", "data": "1.4.2"}}]},
	{"id": "d", "original_topic": "orders", "status": "DEAD", "error_message": "", "created_at": "2026-02-20T08:00:00.000+00:00", "headers": null}
], "next_cursor": null}`

func groupAPI(t *testing.T) *anAPI {
	t.Helper()
	return newAPI(t).
		says("GET /api/v1/groups", quoted(`{"groups": [`+strings.NewReplacer(groupID, "650ee99a-d1c9-8faa-8ea2-3653afc64200",
			"java.net.SocketTimeoutException", "a.Quiet", `"regressed": true`, `"regressed": false`).Replace(aGroup)+`,`+aGroup+`], "next_cursor": "on and on"}`)).
		says("GET /api/v1/groups/"+groupID, quoted(aGroup)).
		says("GET /api/v1/messages", quoted(aGroupsMessages))
}

func TestGroups(t *testing.T) {
	t.Parallel()
	shows(t, groupAPI, map[string]look{
		"AreShown": {path: "/groups", has: []string{
			`class="tag regressed"`, "12,003", "20,000", "7 arrivals in 24 hours, at most 7 in 1 h", "cursor=on&#43;and&#43;on", "69 %",
			"unknown origin",
		}},
		"SayWhatIsWrongWithTheAddress": {
			path:   "/groups?sort=" + url.QueryEscape(hostile) + "&topic=" + url.QueryEscape(hostile),
			says:   answers{"GET /api/v1/groups": refusal{http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR", "sort: must be one of last_seen", nil}},
			status: http.StatusBadRequest, has: []string{"sort: must be one of last_seen", `value="&lt;script&gt;`},
		},
		"SayThatThereAreNone": {path: "/groups", says: answers{"GET /api/v1/groups": raw(`{"groups": []}`)}, has: []string{"No messages are open"}},
		"SayThatATopicHasNone": {
			path: "/groups?topic=x", says: answers{"GET /api/v1/groups": raw(`{"groups": []}`)},
			has: []string{"No group of this topic has open messages"},
		},
	})
	a := groupAPI(t)
	body := get(t, site(t, a), "/groups").Body.String()
	if first, second := strings.Index(body, ">SocketTimeoutException<"), strings.Index(body, ">Quiet<"); first < 0 || first > second {
		t.Errorf("got %d for the group that came back and %d for the other, want it before", first, second)
	}
	wantAsked(t, a, "GET /api/v1/groups", "limit=50&open=true&sort=last_seen&trend=24h")
	get(t, site(t, a), "/groups?topic=a%2Fb&sort=open&trend=7d&open=false&cursor=x")
	wantAsked(t, a, "GET /api/v1/groups", "cursor=x&limit=50&sort=open&topic=a%2Fb&trend=7d")
}

func TestGroup(t *testing.T) {
	t.Parallel()
	some := viewer{Name: "ann", Grants: []grant{{"viewer", []string{"*"}}, {"operator", []string{"orders.*"}}}}
	alike := raw(`{"id":"` + groupID + `","annotations":[{"topic":null,"note":"x","link":null,"muted":true}]}`)
	shows(t, groupAPI, map[string]look{
		"SaysWhatItIsAndWhatCanBeDone": {path: "/groups/" + groupID, has: []string{
			"12,000", "By header, of all 4 messages", "1.4.2", "50 %", "no such header", "25 %", "action=retry&amp;group_id=" + groupID,
			"Sends the 12,000 pending messages back", "Removes the 12,006 messages", "header=version%3D1.4.2", "7 arrivals in 7 days",
			"By topic", `<th scope="row">all others</th>`, "Saving replaces this",
		}},
		"ShowsViewersWhyTheyCannot": {
			path: "/groups/" + groupID, says: answers{"GET /api/v1/session": readOnly}, lacks: []string{"/redrives/new?"},
			has: []string{"<button disabled>Retry …</button>", "needs the role operator", "needs the role admin", "<button disabled>Keep</button>"},
		},
		"LetsThosePassWhoMayOnOneOfItsTopics": {path: "/groups/" + groupID, says: answers{"GET /api/v1/session": some}, has: []string{
			"action=retry", "<button disabled>Delete …</button>", "<button>Save</button>", "Makes those of the 1 dead message in",
			"Sends those of the 12,000 pending messages in orders.events.v1 back to the topics where they failed",
			"Marks those of the 12,000 pending messages in orders.events.v1 dead",
		}},
		"IsThereWithoutItsMessages": {
			path: "/groups/" + groupID, has: []string{"could not be read: later, please"},
			says: answers{"GET /api/v1/messages": refusal{http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE", "later, please", nil}},
		},
		"IsNotThere": {
			path: "/groups/x", status: http.StatusNotFound, has: []string{"no such group"},
			says: answers{"GET /api/v1/groups/x": refusal{http.StatusNotFound, "SYS_DLQ_NOT_FOUND", "no such group", nil}},
		},
		"HasOneNoteForAllTopics": {
			path: "/groups/" + groupID, says: answers{"GET /api/v1/groups/" + groupID: alike},
			lacks: []string{"By topic"},
		},
	})
}

func TestGroupNote(t *testing.T) {
	t.Parallel()
	const note = "PATCH /api/v1/groups/" + groupID
	a := groupAPI(t).says(note, raw(`{}`))
	s := site(t, a)
	form := url.Values{"key": {"k"}, "note": {"one\r\ntwo"}, "link": {""}, "muted": {"on"}}
	wantDone(t, "noting", post(t, s, "/groups/"+groupID+"/note", form), "noted", "/groups/"+groupID)
	wantSent(t, a, note, `{"link":null,"muted":true,"note":"one\ntwo"}`, "")
	a.says(note, refusal{http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR", "link: must be an address", nil})
	w := post(t, s, "/groups/"+groupID+"/note", url.Values{"note": {"mine" + hostile}, "link": {"ftp://x"}})
	wantSays(t, "a refused note", w, http.StatusBadRequest, "link: must be an address", ">mine&lt;script", `value="ftp://x"`)
	wantNoMarkup(t, w.Body.String())
}

func TestTrendDraw(t *testing.T) {
	t.Parallel()
	at := func(hours int) time.Time { return noon.Add(time.Duration(hours) * time.Hour) }
	got := trendDay.draw(noon, []groupHour{{at(0), 1}, {at(-23), 24}, {at(-24), 99}, {at(1), 99}})
	if got.Total != 25 || got.Most != 24 || len(got.Buckets) != 24 || got.Width != 95 {
		t.Errorf("got %d in %d buckets, at most %d, %d wide, want 25 in 24, at most 24, 95 wide", got.Total, len(got.Buckets), got.Most, got.Width)
	}
	if want := "M0 24h3v-24h-3zM92 24h3v-1h-3z"; got.Bars != want {
		t.Errorf("got %s, want the first and the last hour: %s", got.Bars, want)
	}
	if week := trendWeek.draw(noon, []groupHour{{at(0), 1}, {at(-4), 2}}); week.Most != 3 || len(week.Arrivals()) != 1 {
		t.Errorf("got at most %d in %d buckets, want both in one of six hours", week.Most, len(week.Arrivals()))
	}
	if empty := trendDay.draw(noon, nil); empty.Bars != "" || empty.Words != "0 arrivals in 24 hours" {
		t.Errorf("got %+v, want nothing drawn", empty)
	}
}

func TestWebAddress(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://t.example/1?a=b": "https://t.example/1?a=b", "http://t": "http://t", "javascript:alert(1)": "", "//t.example": "", "": "",
		" javascript:alert(1)": "", "https:": "", "data:text/html,x": "", "JAVASCRIPT:alert(1)//http://x": "",
	} {
		if got := webAddress(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
