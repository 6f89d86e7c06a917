package console

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
)

const (
	idOfOne   = "550e8400-e29b-41d4-a716-446655440000"
	idOfTwo   = "550e8400-e29b-41d4-a716-446655440001"
	idOfGroup = "650ee99a-d1c9-8faa-8ea2-3653afc6425f"
)

// oneMessage is a list of one in JSON; what follows it is told by the caller.
func oneMessage(behind string) raw {
	return raw(`{"messages":[{"id":"` + idOfOne + `","original_topic":"orders.events.v1","error_message":"processing failed",
		"retry_count":1,"max_retries":3,"payload":{"a":[1,{"b":null}]},"status":"PENDING","created_at":"2026-02-20T11:30:00.250+00:00",
		"error_class":"java.net.SocketTimeoutException","group_id":"` + idOfGroup + `","dlq_topic":"orders.dlq.v1","dlq_partition":2,"dlq_offset":41,
		"consumer_group":"billing","dialect":"spring","outcome":"returned","key":{"encoding":"base64","data":"/wA="},"payload_size":1536,"headers":[]}],` + behind + `}`)
}

const nothingBehind = `"next_cursor":null,"count":{"messages":1,"exact":true},"searched_until":null`

func messagesSite(t *testing.T, answer any) (*anAPI, http.Handler) {
	t.Helper()
	a := newAPI(t).says("GET /api/v1/messages", answer)
	return a, site(t, a)
}

func wants(t *testing.T, body string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(body, text) {
			t.Errorf("got a page without %q", text)
		}
	}
	if t.Failed() {
		t.Log(body)
	}
}

// lastAsked is the query of the last request of a route.
func lastAsked(t *testing.T, a *anAPI, route string) url.Values {
	t.Helper()
	asked, _ := a.wasAsked(route)
	if len(asked) == 0 {
		t.Fatalf("got %s never asked, want it", route)
	}
	return asked[len(asked)-1].URL.Query()
}

func getPart(t *testing.T, s http.Handler, path, part string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	r.Header.Set("HX-Request", "true")
	r.Header.Set("HX-Target", part)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func TestMessagesShowWhatWasFound(t *testing.T) {
	t.Parallel()
	a, s := messagesSite(t, oneMessage(nothingBehind))
	w := get(t, s, "/messages?topic=orders.*&status=pending,dead&cols=status,class,error,topic,key,retries,received,size,group,position,consumer,dialect,outcome")
	if w.Code != http.StatusOK {
		t.Fatalf("got %d, want 200: %s", w.Code, w.Body)
	}
	wants(t, w.Body.String(), "PENDING", "SocketTimeoutException", "java.net", "processing failed", "orders.events.v1", "0xff00", "1 of 3", "29 min ago",
		"1.5 KiB", `href="/groups/`+idOfGroup+`"`, "orders.dlq.v1 2@41", "billing", "spring", "returned", `href="/messages/`+idOfOne+`"`,
		"<strong>1</strong> matches", `value="orders.*"`, `value="DEAD" checked`)
	got := lastAsked(t, a, "GET /api/v1/messages").Encode()
	if want := "count=estimate&limit=50&omit=payload&status=PENDING&status=DEAD&topic=orders.%2A"; got != want {
		t.Errorf("got the API asked %s, want %s", got, want)
	}
}

func TestMessagesAskByEveryParameter(t *testing.T) {
	t.Parallel()
	a, s := messagesSite(t, oneMessage(nothingBehind))
	a.says("GET /api/v1/groups/"+idOfGroup, raw(`{"title":"stock <i>timed out</i>"}`))
	given := url.Values{
		"topic": {"orders"}, "status": {"DEAD"}, "error_class": {"E"}, "consumer_group": {"g"}, "dialect": {"spring"}, "group_id": {idOfGroup},
		"origin": {"unknown"}, "created_after": {"2026-02-20T10:30:00Z"}, "created_before": {"2026-02-21T10:30:00Z"},
		"retried_after": {"2026-02-20T10:30:00Z"}, "retried_before": {"2026-02-21T10:30:00Z"}, "key": {" k "},
		"header": {"a=b", "c"}, "payload": {"$.a = 1", "$.b"}, "q": {"words"}, "sort": {"-last_retry_at"},
	}
	w := get(t, s, "/messages?"+given.Encode())
	asked := lastAsked(t, a, "GET /api/v1/messages")
	for name, values := range given {
		if got := strings.Join(asked[name], "|"); got != strings.Join(values, "|") {
			t.Errorf("%s: got %q asked, want %q", name, got, values)
		}
	}
	wants(t, w.Body.String(), "stock &lt;i&gt;timed out&lt;/i&gt;", "Clear all", `value="$.a = 1"`, `value="c"`)
}

func TestMessagesTakeTimesAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	a, s := messagesSite(t, oneMessage(nothingBehind))
	for given, want := range map[string]string{
		"2026-02-20": "2026-02-20T00:00:00Z", "2026-02-20 10:30": "2026-02-20T10:30:00Z", "2026-02-20T10:30:05": "2026-02-20T10:30:05Z",
		"2026-02-20T10:30:00+01:00": "2026-02-20T10:30:00+01:00", "yesterday": "yesterday",
	} {
		get(t, s, to("/messages", "created_after", given))
		if got := lastAsked(t, a, "GET /api/v1/messages").Get("created_after"); got != want {
			t.Errorf("%s: got %q, want %q", given, got, want)
		}
	}
}

func TestMessagesSince(t *testing.T) {
	t.Parallel()
	t.Run("IsCountedFromTheFirstPage", func(t *testing.T) {
		t.Parallel()
		a, s := messagesSite(t, oneMessage(`"next_cursor":"onward","count":{"messages":9,"exact":true},"searched_until":null`))
		body := get(t, s, "/messages?since=1h").Body.String()
		if got, want := lastAsked(t, a, "GET /api/v1/messages").Get("created_after"), "2026-02-20T11:00:00.000Z"; got != want {
			t.Errorf("got created_after %q, want %q", got, want)
		}
		wants(t, body, "/messages?cursor=onward&amp;opened=2026-02-20T12%3A00%3A00.000Z&amp;since=1h")
		get(t, s, "/messages?cursor=onward&opened=2026-02-20T09%3A00%3A00.000Z&since=1h")
		asked := lastAsked(t, a, "GET /api/v1/messages")
		if got, want := asked.Get("created_after"), "2026-02-20T08:00:00.000Z"; got != want || asked.Get("cursor") != "onward" {
			t.Errorf("got created_after %q with cursor %q, want %q with onward: a cursor belongs to its question", got, asked.Get("cursor"), want)
		}
	})
	t.Run("IsCountedFromNowOnTheFirstPage", func(t *testing.T) {
		t.Parallel()
		a, s := messagesSite(t, oneMessage(nothingBehind))
		get(t, s, "/messages?opened=2020-01-01T00%3A00%3A00.000Z&since=1h")
		if got, want := lastAsked(t, a, "GET /api/v1/messages").Get("created_after"), "2026-02-20T11:00:00.000Z"; got != want {
			t.Errorf("got created_after %q, want %q: an old address shows what there is now", got, want)
		}
	})
	t.Run("IsRefusedWhenNobodyUnderstandsIt", func(t *testing.T) {
		t.Parallel()
		for _, since := range []string{"h", "0h", "-1h", "1y", "99999999999d", "1.5h", "é"} {
			a, s := messagesSite(t, oneMessage(nothingBehind))
			w := get(t, s, to("/messages", "since", since, "topic", "kept"))
			if asked, _ := a.wasAsked("GET /api/v1/messages"); w.Code != http.StatusBadRequest || len(asked) > 0 {
				t.Errorf("%s: got %d and %d questions, want 400 and none", since, w.Code, len(asked))
			}
			wants(t, w.Body.String(), `value="kept"`, "must be a number and m, h or d")
		}
	})
}

func TestMessagesKeepWhatWasTypedWrongly(t *testing.T) {
	t.Parallel()
	_, s := messagesSite(t, refusal{http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR", "q: must be 1 to 10 words", []map[string]any{
		{"field": "q", "reason": "must be 1 to 10 words"}, {"field": "created_after", "reason": "must be a time"}, {"field": "filter", "reason": "is too wide"},
	}})
	w := get(t, s, "/messages?q=no&created_after=yesterday&topic=orders")
	if w.Code != http.StatusBadRequest {
		t.Errorf("got %d, want 400", w.Code)
	}
	body := w.Body.String()
	wants(t, body, `value="no"`, `value="yesterday"`, `value="orders"`, `id="filter-q-wrong">must be 1 to 10 words`, `id="filter-created_after-wrong">must be a time`, "is too wide", "<details class=\"conditions\" open>")
	if strings.Contains(body, "<tbody") {
		t.Error("got a list beside an error, want none")
	}
}

func TestMessagesTidyAddresses(t *testing.T) {
	t.Parallel()
	_, s := messagesSite(t, oneMessage(nothingBehind))
	w := get(t, s, "/messages?topic=&status=DEAD&q=&key=&sort=")
	if got, want := w.Header().Get("Location"), "/messages?status=DEAD"; w.Code != http.StatusSeeOther || got != want {
		t.Errorf("got %d to %q, want 303 to %q", w.Code, got, want)
	}
}

func TestMessagesAreCounted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		path, behind, want string
	}{
		"ByThePage":        {"/messages?q=abc", `"next_cursor":null,"count":{"messages":700,"exact":false},"searched_until":null`, "<strong>1</strong> matches"},
		"Exactly":          {"/messages", `"next_cursor":"x","count":{"messages":12431,"exact":true},"searched_until":null`, "<strong>12,431</strong> match"},
		"Roughly":          {"/messages?q=abc", `"next_cursor":"x","count":{"messages":12431,"exact":false},"searched_until":null`, "<strong>about 12,431</strong> match"},
		"AtLeast":          {"/messages?q=abc", `"next_cursor":"x","count":{"messages":10000,"exact":false,"at_least":true},"searched_until":null`, "<strong>at least 10,000</strong> match</span>"},
		"RoughlyWhenAsked": {"/messages?q=abc&count=exact", `"next_cursor":"x","count":{"messages":12431,"exact":false},"searched_until":null`, "<strong>about 12,431</strong> match</span>"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, s := messagesSite(t, oneMessage(c.behind))
			wants(t, get(t, s, c.path).Body.String(), c.want)
		})
	}
	t.Run("NotAgainOnEveryPage", func(t *testing.T) {
		t.Parallel()
		_, s := messagesSite(t, oneMessage(`"next_cursor":"x","count":{"messages":12431,"exact":false},"searched_until":null`))
		for path, want := range map[string]bool{"/messages?q=abc": true, "/messages?q=abc&cursor=x&opened=2026-02-20T12:00:00Z": false} {
			body := get(t, s, path).Body.String()
			if got := strings.Contains(body, `hx-trigger="load"`); got != want || !strings.Contains(body, "count exactly") {
				t.Errorf("%s: got counted by itself %t, want %t and a way to ask", path, got, want)
			}
		}
	})
	t.Run("LaterByThemselves", func(t *testing.T) {
		t.Parallel()
		a, s := messagesSite(t, oneMessage(`"next_cursor":"x","count":{"messages":12431,"exact":true},"searched_until":null`))
		body := getPart(t, s, "/messages?q=abc&count=exact", "count").Body.String()
		wants(t, body, `<span id="count"><strong>12,431</strong> match`, `<span id="all-count">12,431</span>`)
		if asked := lastAsked(t, a, "GET /api/v1/messages"); asked.Get("limit") != "1" || asked.Get("count") != "exact" {
			t.Errorf("got the API asked %s, want one message and the exact count", asked.Encode())
		}
	})
}

func TestMessagesCountArrivalsAlone(t *testing.T) {
	t.Parallel()
	a, s := messagesSite(t, oneMessage(nothingBehind))
	body := get(t, s, "/messages?topic=orders&since=1h").Body.String()
	wants(t, body, `hx-get="/messages?seen=2026-02-20T11%3A30%3A00.250Z&amp;since=1h&amp;topic=orders"`, "nothing newer")
	a.says("GET /api/v1/messages", oneMessage(`"next_cursor":null,"count":{"messages":12,"exact":true},"searched_until":null`))
	body = getPart(t, s, "/messages?seen=2026-02-20T11%3A30%3A00.250Z&since=1h&topic=orders", "arrivals").Body.String()
	wants(t, body, "<strong>12 new</strong> since you opened this page", `href="/messages?since=1h&amp;topic=orders"`)
	if strings.Contains(body, "<tbody") {
		t.Error("got the table with the arrivals, want it left alone")
	}
	if got, want := lastAsked(t, a, "GET /api/v1/messages").Encode(), "count=exact&created_after=2026-02-20T11%3A30%3A00.251Z&limit=1&omit=payload&topic=orders"; got != want {
		t.Errorf("got the API asked %s, want %s", got, want)
	}
	for _, path := range []string{"/messages?sort=created_at", "/messages?cursor=x&opened=2026-02-20T11:30:00Z", "/messages?created_before=2026-02-20"} {
		if body := get(t, s, path).Body.String(); strings.Contains(body, `id="arrivals"`) {
			t.Errorf("%s: got arrivals told, want none: they would not stand at its top", path)
		}
	}
}

func TestMessagesNameTopicsWhenAsked(t *testing.T) {
	t.Parallel()
	a, s := messagesSite(t, oneMessage(nothingBehind))
	get(t, s, "/messages")
	if asked, _ := a.wasAsked("GET /api/v1/topics"); len(asked) != 0 {
		t.Error("got topics asked for with the page, want them when somebody types")
	}
	a.says("GET /api/v1/topics", raw(`{"topics":[{"topic":"","dlq_topics":["p.dlq.v1"]},{"topic":"orders","dlq_topics":["p.dlq.v1","orders.dlq.v1"]}]}`))
	body := getPart(t, s, "/messages", "known-topics").Body.String()
	wants(t, body, `<datalist id="known-topics"><option value="p.dlq.v1"></option><option value="orders"></option><option value="orders.dlq.v1"></option></datalist>`)
}

func TestMessagesChosen(t *testing.T) {
	t.Parallel()
	t.Run("AllAreThoseOfNow", func(t *testing.T) {
		t.Parallel()
		_, s := messagesSite(t, oneMessage(nothingBehind))
		body := get(t, s, "/messages?topic=orders&since=1h&sort=-last_retry_at").Body.String()
		wants(t, body, `<input type="hidden" name="created_before" value="2026-02-20T12:00:00.000Z">`, `<input type="hidden" name="created_after" value="2026-02-20T11:00:00.000Z">`,
			`<input type="hidden" name="retried_after" value="1970-01-01T00:00:00Z">`, `name="what" value="all">`)
	})
	t.Run("AllIncludeTheNewestWhateverItsClock", func(t *testing.T) {
		t.Parallel()
		_, s := messagesSite(t, raw(strings.ReplaceAll(string(oneMessage(nothingBehind)), "11:30:00.250", "12:00:03.100")))
		wants(t, get(t, s, "/messages?topic=orders").Body.String(), `name="created_before" value="2026-02-20T12:00:03.101Z"`)
	})
	t.Run("AllThereIsCannotBeMeant", func(t *testing.T) {
		t.Parallel()
		_, s := messagesSite(t, oneMessage(nothingBehind))
		wants(t, get(t, s, "/messages?status=DEAD&since=1h").Body.String(), `name="what" value="all" disabled`, "times and states alone may mean everything")
	})
	for name, c := range map[string]struct{ given, want string }{
		"ById":                {"action=dead&what=ids&ids=a&ids=b&topic=orders&back=/messages", "/redrives/new?action=dead&ids=a&ids=b"},
		"ByFilter":            {"action=delete&what=all&ids=a&topic=orders&status=DEAD&header=a%3Db&header=c&back=/messages", "/redrives/new?action=delete&header=a%3Db&header=c&status=DEAD&topic=orders"},
		"NothingLeadsBack":    {"action=retry&what=ids&back=%2Fmessages%3Ftopic%3Dorders", "/messages?topic=orders"},
		"NothingLeadsNowhere": {"action=retry&what=ids&back=%2F%2Fevil.example", "/"},
		"UnknownActionsRetry": {"action=explode&ids=a", "/redrives/new?action=retry&ids=a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := chosenLocation(t, c.given); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func chosenLocation(t *testing.T, query string) string {
	t.Helper()
	_, s := messagesSite(t, oneMessage(nothingBehind))
	return get(t, s, "/messages/chosen?"+query).Header().Get("Location")
}

func TestMessagesSayWhatAViewerMayNot(t *testing.T) {
	t.Parallel()
	for role, wanted := range map[string][]string{
		"viewer":   {`value="retry" disabled`, `value="requeue" disabled`, `value="dead" disabled`, `value="delete" disabled`, "needs the role operator"},
		"operator": {`value="retry">`, `value="delete" disabled`, "to delete needs the role admin"},
	} {
		a, s := messagesSite(t, oneMessage(nothingBehind))
		a.says("GET /api/v1/session", viewer{Name: "eve", Mode: "token", Grants: []grant{{role, []string{"*"}}}})
		wants(t, get(t, s, "/messages").Body.String(), wanted...)
	}
}

func TestMessagesKeepColumns(t *testing.T) {
	t.Parallel()
	_, s := messagesSite(t, oneMessage(nothingBehind))
	w := post(t, s, "/messages/columns", url.Values{"column": {"topic", "nonsense", "size"}, "return": {"/messages?cols=key&q=abc"}})
	if got, want := w.Header().Get("Location"), "/messages?q=abc"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	cookies := w.Result().Cookies()
	if len(cookies) != 1 || cookies[0].Value != "topic.size" {
		t.Fatalf("got cookies %v, want topic.size", cookies)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/messages", nil)
	r.AddCookie(cookies[0])
	w = httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if body := w.Body.String(); strings.Contains(body, "c-status") || !strings.Contains(body, "c-size") {
		t.Error("got other columns than were chosen")
	}
	w = post(t, s, "/messages/columns", url.Values{"usual": {"1"}, "return": {"/archive"}})
	if cookies := w.Result().Cookies(); len(cookies) != 1 || cookies[0].MaxAge >= 0 {
		t.Errorf("got cookies %v, want the choice forgotten", cookies)
	}
}

func TestMessagesAreMissing(t *testing.T) {
	t.Parallel()
	const none = `{"messages":[],"next_cursor":null,"count":{"messages":0,"exact":true},"searched_until":null}`
	for path, want := range map[string]string{
		"/messages":                   "There are no messages yet.",
		"/messages?topic=x":           "No message matches.",
		"/messages?cursor=x&topic=x":  "There is nothing further down.",
		"/messages?topic=x&since=15m": `href="/archive?since=15m&amp;topic=x"`,
	} {
		_, s := messagesSite(t, raw(none))
		wants(t, get(t, s, path).Body.String(), want)
	}
}

func TestASearchWhoseTimeIsOverGoesOn(t *testing.T) {
	t.Parallel()
	const over = `"next_cursor":"onward","count":null,"searched_until":null,"searched_back_to":"2026-02-20T11:00:00.000+00:00"`
	for path, c := range map[string]struct {
		answer raw
		want   []string
	}{
		"/messages?q=boom": {oneMessage(over), []string{idOfOne, "Searched back to", "Search on", "cursor=onward"}},
		"/messages?q=boom&cursor=x&sort=created_at": {
			raw(`{"messages":[],` + over + `}`), []string{"No message matches so far.", "Searched up to", "Search on", "cursor=onward"},
		},
	} {
		_, s := messagesSite(t, c.answer)
		body := get(t, s, path).Body.String()
		wants(t, body, c.want...)
		if strings.Contains(body, "end of the list") || strings.Contains(body, "nothing further") {
			t.Errorf("%s: got the end of the list, want that it goes on", path)
		}
	}
}

func TestArchiveIsAListWithoutActions(t *testing.T) {
	t.Parallel()
	a := newAPI(t).says("GET /api/v1/archive", oneMessage(`"next_cursor":"x","count":{"messages":70,"exact":false},"searched_until":"2026-02-20T11:00:00.000+00:00"`))
	w := get(t, site(t, a), "/archive?topic=orders")
	body := w.Body.String()
	wants(t, body, `href="/archive/`+idOfOne+`"`, "about 70", "/archive?cursor=x&amp;", "among what the search knew", "source=archive")
	if strings.Contains(body, `name="ids"`) || strings.Contains(body, `id="arrivals"`) {
		t.Error("got rows that can be chosen or arrivals, want an archive that is looked at")
	}
}

func TestExportsArePassedOn(t *testing.T) {
	t.Parallel()
	t.Run("AsTheyAreMade", func(t *testing.T) {
		t.Parallel()
		a := newAPI(t).says("GET /api/v1/export", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/csv; charset=utf-8")
			w.Header().Set("Content-Disposition", `attachment; filename="messages.csv"`)
			w.Header().Set("X-Api-Only", "kept")
			w.Header().Set("Trailer", "X-Export-Messages, X-Export-Complete")
			_, _ = w.Write([]byte("id\n"))
			_, _ = w.Write([]byte("1\n"))
			w.Header().Set("X-Export-Messages", "1")
			w.Header().Set("X-Export-Complete", "true")
		}))
		server := httptest.NewServer(site(t, a))
		t.Cleanup(server.Close)
		res := fetchFrom(t, server.URL+"/messages/export?topic=orders&since=1h&format=csv&source=archive&sort=created_at&done=x")
		if res.err != nil || res.body != "id\n1\n" {
			t.Errorf("got %q, %v, want both lines", res.body, res.err)
		}
		if res.header.Get("Content-Type") != "text/csv; charset=utf-8" || !strings.HasPrefix(res.header.Get("Content-Disposition"), "attachment") || res.header.Get("X-Api-Only") != "" {
			t.Errorf("got headers %v, want a file", res.header)
		}
		if got := res.trailer.Get("X-Export-Complete"); got != "true" || res.trailer.Get("X-Export-Messages") != "1" {
			t.Errorf("got trailers %v, want 1 and true", res.trailer)
		}
		if got, want := lastAsked(t, a, "GET /api/v1/export").Encode(), "created_after=2026-02-20T11%3A00%3A00.000Z&format=csv&source=archive&topic=orders"; got != want {
			t.Errorf("got the API asked %s, want %s", got, want)
		}
	})
	t.Run("OrRefused", func(t *testing.T) {
		t.Parallel()
		a := newAPI(t).says("GET /api/v1/export", refusal{http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE", "4 exports are under way already", nil})
		w := get(t, site(t, a), "/messages/export?format=csv")
		if w.Code != http.StatusServiceUnavailable || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
			t.Errorf("got %d as %s, want a page with 503", w.Code, w.Header().Get("Content-Type"))
		}
		wants(t, w.Body.String(), "4 exports are under way already")
	})
	t.Run("OrBrokenOff", func(t *testing.T) {
		t.Parallel()
		a := newAPI(t).says("GET /api/v1/export", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("half"))
			panic(http.ErrAbortHandler)
		}))
		server := httptest.NewServer(site(t, a))
		t.Cleanup(server.Close)
		res := fetchFrom(t, server.URL+"/messages/export")
		if res.err == nil {
			t.Error("got an export that ends well, want one that is cut")
		}
	})
}

// fetched is an answer that came over a connection.
type fetched struct {
	body            string
	header, trailer http.Header
	err             error // of reading the body
}

func fetchFrom(t *testing.T, address string) fetched {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	return fetched{string(body), res.Header, res.Trailer, err}
}

// markup is in every field: nothing of it may become markup.
const markup = `<script>alert(1)</script>"'><img src=x onerror=alert(1)>`

func TestMessagesAreTextAndNoMarkup(t *testing.T) {
	t.Parallel()
	row := map[string]any{"created_at": noon.Add(-time.Hour), "dlq_partition": 1, "dlq_offset": 2, "payload_size": 3, "key": map[string]string{"encoding": "utf8", "data": markup}}
	for _, name := range []string{"id", "original_topic", "error_message", "error_class", "status", "group_id", "dlq_topic", "consumer_group", "dialect", "outcome"} {
		row[name] = markup
	}
	answer, err := json.Marshal(map[string]any{"messages": []any{row}, "next_cursor": markup, "count": map[string]any{"messages": 3, "exact": false}})
	if err != nil {
		t.Fatal(err)
	}
	a, s := messagesSite(t, raw(answer))
	a.says("GET /api/v1/archive", raw(answer)).says("GET /api/v1/groups/"+idOfGroup, raw(`{"title":`+jsonText(markup)+`}`)).
		says("GET /api/v1/topics", raw(`{"topics":[{"topic":`+jsonText(markup)+`}]}`))
	typed := url.Values{"cols": {"status,class,error,topic,key,retries,received,size,group,position,consumer,dialect,outcome"}, "group_id": {idOfGroup}, "sort": {markup}}
	for _, name := range []string{"topic", "error_class", "consumer_group", "dialect", "key", "q", "header", "payload", "created_after"} {
		typed.Set(name, markup)
	}
	for _, path := range []string{"/messages", "/archive"} {
		staysText(t, get(t, s, withQuery(path, typed)).Body.String())
	}
	staysText(t, getPart(t, s, "/messages", "known-topics").Body.String())
	a.says("GET /api/v1/messages", refusal{http.StatusBadRequest, markup, markup, []map[string]any{{"field": "q", "reason": markup}, {"field": markup, "reason": markup}}})
	staysText(t, get(t, s, withQuery("/messages", typed)).Body.String())
	typed.Set("since", markup)
	typed.Del("created_after")
	staysText(t, get(t, s, withQuery("/messages", typed)).Body.String())
}

func jsonText(text string) string {
	b, _ := json.Marshal(text)
	return string(b)
}

// staysText parses a page as a browser does.
func staysText(t *testing.T, body string) {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	texts := 0
	for n := range doc.Descendants() {
		if n.Type == html.TextNode && strings.Contains(n.Data, "alert(1)") {
			texts++
		}
		if n.Type != html.ElementNode {
			continue
		}
		if n.Data == "img" || n.Data == "script" && n.FirstChild != nil {
			t.Errorf("got an element %s, want text", n.Data)
		}
		for _, attribute := range n.Attr {
			if strings.HasPrefix(attribute.Key, "on") || attribute.Key == "style" || attribute.Key == "href" && strings.HasPrefix(strings.TrimSpace(attribute.Val), "javascript:") {
				t.Errorf("got %s=%q on %s, want no attribute of theirs", attribute.Key, attribute.Val, n.Data)
			}
		}
	}
	if texts == 0 && !strings.Contains(body, "alert(1)") {
		t.Error("got a page without the markup text, want it shown")
	}
}
