package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

const groupID = "650ee99a-d1c9-8faa-8ea2-3653afc6425f"

// aGroup is a group as the API tells of it, hostile wherever it can be.
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

// readOnly is the session of somebody who may look and no more.
var readOnly = viewer{Name: "eve", Mode: "token", Grants: []grant{{"viewer", []string{"*"}}}}

func groupAPI(t *testing.T) *anAPI {
	t.Helper()
	return newAPI(t).
		says("GET /api/v1/groups", quoted(`{"groups": [`+strings.NewReplacer(groupID, "650ee99a-d1c9-8faa-8ea2-3653afc64200",
			"java.net.SocketTimeoutException", "a.Quiet", `"regressed": true`, `"regressed": false`).Replace(aGroup)+`,`+aGroup+`], "next_cursor": "on and on"}`)).
		says("GET /api/v1/groups/"+groupID, quoted(aGroup)).
		says("GET /api/v1/messages", quoted(aGroupsMessages))
}

// wantIn wants each text in a page.
func wantIn(t *testing.T, body string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(body, text) {
			t.Errorf("want %q in the page, got\n%s", text, body)
			return
		}
	}
}

func TestGroups(t *testing.T) {
	t.Parallel()
	t.Run("ThatCameBackStandFirst", func(t *testing.T) {
		t.Parallel()
		a := groupAPI(t)
		body := get(t, site(t, a), "/groups").Body.String()
		if first, second := strings.Index(body, ">SocketTimeoutException<"), strings.Index(body, ">Quiet<"); first < 0 || first > second {
			t.Errorf("got %d for the group that came back and %d for the other, want it before", first, second)
		}
		asked, _ := a.wasAsked("GET /api/v1/groups")
		if q := asked[0].URL.Query(); q.Get("open") != "true" || q.Get("sort") != "last_seen" || q.Get("trend") != "24h" {
			t.Errorf("got asked %s, want open ones by when they were seen last, with a day's trend", asked[0].URL)
		}
		wantIn(t, body, `class="tag regressed"`, "12,003", "20,000", "7 arrivals in 24 hours, at most 7 in 1 h", "cursor=on&#43;and&#43;on", "69 %", "unknown origin")
		wantNoMarkup(t, body)
	})
	t.Run("AreAskedForAsTheAddressSays", func(t *testing.T) {
		t.Parallel()
		a := groupAPI(t)
		get(t, site(t, a), "/groups?topic=a%2Fb&sort=open&trend=7d&open=false&cursor=x")
		asked, _ := a.wasAsked("GET /api/v1/groups")
		q := asked[0].URL.Query()
		if q.Get("topic") != "a/b" || q.Get("sort") != "open" || q.Get("trend") != "7d" || q.Has("open") || q.Get("cursor") != "x" {
			t.Errorf("got asked %s, want what the address says", asked[0].URL)
		}
	})
	t.Run("SayWhatIsWrongWithTheAddress", func(t *testing.T) {
		t.Parallel()
		a := groupAPI(t).says("GET /api/v1/groups", refusal{http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR", "sort: must be one of last_seen", nil})
		w := get(t, site(t, a), "/groups?sort="+url.QueryEscape(hostile)+"&topic="+url.QueryEscape(hostile))
		if w.Code != http.StatusBadRequest {
			t.Errorf("got %d, want 400", w.Code)
		}
		wantIn(t, w.Body.String(), "sort: must be one of last_seen", `value="&lt;script&gt;`)
		wantNoMarkup(t, w.Body.String())
	})
	t.Run("SayThatThereAreNone", func(t *testing.T) {
		t.Parallel()
		a := newAPI(t).says("GET /api/v1/groups", raw(`{"groups": [], "next_cursor": null}`))
		wantIn(t, get(t, site(t, a), "/groups").Body.String(), "Nothing is open")
		wantIn(t, get(t, site(t, a), "/groups?topic=x").Body.String(), "No group of this topic has something open")
	})
}

func TestGroup(t *testing.T) {
	t.Parallel()
	t.Run("SaysWhatItIsAndWhatCanBeDone", func(t *testing.T) {
		t.Parallel()
		w := get(t, site(t, groupAPI(t)), "/groups/"+groupID)
		body := w.Body.String()
		if w.Code != http.StatusOK {
			t.Fatalf("got %d: %s", w.Code, body)
		}
		wantIn(t, body, "12,000", "By header, of all 4 messages", "1.4.2", "50 %", "no such header", "25 %",
			"action=retry&amp;group_id="+groupID, "Sends the 12,000 pending messages back", "Removes the 12,006 messages",
			"header=version%3D1.4.2", "7 arrivals in 7 days")
		wantNoMarkup(t, body)
		if strings.Contains(body, "javascript:alert(1)\"") && strings.Contains(body, `href="javascript`) {
			t.Error("got a link that runs, want none")
		}
	})
	t.Run("ShowsViewersWhyTheyCannot", func(t *testing.T) {
		t.Parallel()
		body := get(t, site(t, groupAPI(t).says("GET /api/v1/session", readOnly)), "/groups/"+groupID).Body.String()
		wantIn(t, body, "<button disabled>Retry …</button>", "needs the role operator", "needs the role admin", "<button disabled>Keep</button>")
		if strings.Contains(body, "/redrives/new?") {
			t.Error("got a way to what a viewer may not do, want none")
		}
	})
	t.Run("LetsThosePassWhoMayOnOneOfItsTopics", func(t *testing.T) {
		t.Parallel()
		some := viewer{Name: "ann", Grants: []grant{{"viewer", []string{"*"}}, {"operator", []string{"orders.*"}}}}
		body := get(t, site(t, groupAPI(t).says("GET /api/v1/session", some)), "/groups/"+groupID).Body.String()
		wantIn(t, body, "action=retry", "<button disabled>Delete …</button>", "<button>Keep</button>",
			"Sends those of the 12,000 pending messages that are of orders.events.v1 back to where they failed", "Gives those of the 12,000 pending messages that are of orders.events.v1 up",
			"Makes those of the 1 dead message that are of")
	})
	t.Run("StandsWithoutItsMessages", func(t *testing.T) {
		t.Parallel()
		a := groupAPI(t).says("GET /api/v1/messages", refusal{http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE", "later, please", nil})
		w := get(t, site(t, a), "/groups/"+groupID)
		if w.Code != http.StatusOK {
			t.Errorf("got %d, want the rest of the page", w.Code)
		}
		wantIn(t, w.Body.String(), "could not be read: later, please")
	})
	t.Run("IsNotThere", func(t *testing.T) {
		t.Parallel()
		a := newAPI(t).says("GET /api/v1/groups/x%2F..", nil).says("GET /api/v1/groups/x", refusal{http.StatusNotFound, "SYS_DLQ_NOT_FOUND", "no such group", nil})
		if w := get(t, site(t, a), "/groups/x"); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "no such group") {
			t.Errorf("got %d, want 404 in words", w.Code)
		}
	})
}

func TestGroupNote(t *testing.T) {
	t.Parallel()
	form := url.Values{"key": {"k"}, "note": {"one\r\ntwo"}, "link": {""}, "muted": {"on"}}
	t.Run("IsKept", func(t *testing.T) {
		t.Parallel()
		a := newAPI(t).says("PATCH /api/v1/groups/"+groupID, raw(`{}`))
		w := post(t, site(t, a), "/groups/"+groupID+"/note", form)
		wantDone(t, "noting", w, "noted", "/groups/"+groupID)
		_, bodies := a.wasAsked("PATCH /api/v1/groups/" + groupID)
		if want := `{"link":null,"muted":true,"note":"one\ntwo"}`; len(bodies) != 1 || bodies[0] != want {
			t.Errorf("got %q, want %s", bodies, want)
		}
	})
	t.Run("IsShownByTopic", func(t *testing.T) {
		t.Parallel()
		body := get(t, site(t, groupAPI(t)), "/groups/"+groupID).Body.String()
		wantIn(t, body, "By topic", `<th scope="row">all others</th>`, "What you keep replaces this")
		alike := newAPI(t).says("GET /api/v1/groups/"+groupID, raw(`{"id":"`+groupID+`","annotations":[{"topic":null,"note":"x","link":null,"muted":true}]}`)).
			says("GET /api/v1/messages", quoted(aGroupsMessages))
		if body := get(t, site(t, alike), "/groups/"+groupID).Body.String(); strings.Contains(body, "By topic") {
			t.Errorf("got topics where all have the same:\n%s", body)
		}
	})
	t.Run("ThatIsRefusedStaysInTheForm", func(t *testing.T) {
		t.Parallel()
		a := groupAPI(t).says("PATCH /api/v1/groups/"+groupID, refusal{http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR", "link: must be an address", nil})
		w := post(t, site(t, a), "/groups/"+groupID+"/note", url.Values{"note": {"mine" + hostile}, "link": {"ftp://x"}})
		if w.Code != http.StatusBadRequest {
			t.Errorf("got %d, want 400", w.Code)
		}
		wantIn(t, w.Body.String(), "link: must be an address", ">mine&lt;script", `value="ftp://x"`)
		wantNoMarkup(t, w.Body.String())
	})
}

func TestTrendDraw(t *testing.T) {
	t.Parallel()
	at := func(text string) time.Time {
		moment, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return moment
	}
	got := trendDay.draw(noon, []groupHour{
		{at("2026-02-20T12:00:00Z"), 1}, {at("2026-02-19T13:00:00Z"), 24}, {at("2026-02-19T12:00:00Z"), 99}, {at("2026-02-20T13:00:00Z"), 99},
	})
	if got.Total != 25 || got.Most != 24 || len(got.Buckets) != 24 || got.Width != 95 {
		t.Errorf("got %d in %d buckets, at most %d, %d wide, want 25 in 24, at most 24, 95 wide", got.Total, len(got.Buckets), got.Most, got.Width)
	}
	if want := "M0 24h3v-24h-3zM92 24h3v-1h-3z"; got.Bars != want {
		t.Errorf("got %s, want the first and the last hour: %s", got.Bars, want)
	}
	if week := trendWeek.draw(noon, []groupHour{{at("2026-02-20T12:00:00Z"), 1}, {at("2026-02-20T08:00:00Z"), 2}}); week.Most != 3 || len(week.Arrivals()) != 1 {
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
