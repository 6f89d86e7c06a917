package messages_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/consoletest"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/link"
	"github.com/dlq-manager/dlq-manager/pkg/console/pages/messages"
)

// oneMessage is the JSON of a list with one message; behind holds the JSON members that follow the list.
func oneMessage(behind string) consoletest.Raw {
	return consoletest.Raw(`{"messages":[{"id":"` + consoletest.MessageID + `","original_topic":"orders.events.v1","error_message":"Listener failed; processing failed","cause":"processing failed",
		"retry_count":1,"max_retries":3,"payload":{"a":[1,{"b":null}]},"status":"PENDING","created_at":"2026-02-20T11:30:00.250+00:00",
		"error_class":"java.net.SocketTimeoutException","group_id":"` + consoletest.GroupID + `","dlq_topic":"orders.dlq.v1","dlq_partition":2,"dlq_offset":41,
		"consumer_group":"billing","dialect":"spring","outcome":"returned","key":{"encoding":"base64","data":"/wA="},"payload_size":1536,"headers":[]}],` + behind + `}`)
}

const allColumns = "status,class,error,topic,key,retries,received,size,group,position,consumer,dialect,outcome"

const nothingBehind = `"next_cursor":null,"count":{"messages":1,"exact":true},"searched_until":null`

func messagesSite(t *testing.T, answer any) (*consoletest.API, http.Handler) {
	t.Helper()
	a := consoletest.NewAPI(t).Says("GET /api/v1/messages", answer)
	return a, consoletest.Site(t, a)
}

func TestMessagesShowWhatWasFound(t *testing.T) {
	t.Parallel()
	a, s := messagesSite(t, oneMessage(nothingBehind))
	w := consoletest.Get(t, s, "/messages?topic=orders.*&status=pending,dead&cols="+allColumns)
	consoletest.WantSays(t, "the list", w, http.StatusOK, "PENDING", "SocketTimeoutException", "java.net", "processing failed", "orders.events.v1",
		"0xff00",
		"1 of 3", "29 min ago", "1.5 KiB", `href="/groups/`+consoletest.GroupID+`"`, "orders.dlq.v1 2@41", "billing", "spring", "returned",
		`href="/messages/`+consoletest.MessageID+`"`, "<strong>1</strong> match", `value="orders.*"`, `value="DEAD" checked`)
	consoletest.WantAsked(t, a, "GET /api/v1/messages", "count=estimate&limit=50&omit=payload&status=PENDING&status=DEAD&topic=orders.%2A")
}

func TestMessagesAskByEveryParameter(t *testing.T) {
	t.Parallel()
	a, s := messagesSite(t, oneMessage(nothingBehind))
	a.Says("GET /api/v1/groups/"+consoletest.GroupID, consoletest.Raw(`{"title":"stock <i>timed out</i>"}`))
	given := url.Values{
		"topic": {"orders"}, "status": {"DEAD"}, "error_class": {"E"}, "consumer_group": {"g"}, "dialect": {"spring"}, "group_id": {consoletest.GroupID},
		"origin": {"unknown"}, "created_after": {"2026-02-20T10:30:00Z"}, "created_before": {"2026-02-21T10:30:00Z"},
		"retried_after": {"2026-02-20T10:30:00Z"}, "retried_before": {"2026-02-21T10:30:00Z"}, "key": {" k "},
		"header": {"a=b", "c"}, "payload": {"$.a = 1", "$.b"}, "q": {"words"}, "sort": {"-last_retry_at"},
	}
	w := consoletest.Get(t, s, "/messages?"+given.Encode())
	asked := consoletest.LastAsked(t, a, "GET /api/v1/messages")
	for name, values := range given {
		if got := strings.Join(asked[name], "|"); got != strings.Join(values, "|") {
			t.Errorf("%s: got %q asked, want %q", name, got, values)
		}
	}
	consoletest.MustHave(t, w.Body.String(), "stock &lt;i&gt;timed out&lt;/i&gt;", "Clear all", `value="$.a = 1"`, `value="c"`)
}

func TestMessagesTakeTimesAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	a, s := messagesSite(t, oneMessage(nothingBehind))
	for given, want := range map[string]string{
		"2026-02-20": "2026-02-20T00:00:00Z", "2026-02-20 10:30": "2026-02-20T10:30:00Z", "2026-02-20T10:30:05": "2026-02-20T10:30:05Z",
		"2026-02-20T10:30:00+01:00": "2026-02-20T10:30:00+01:00", "yesterday": "yesterday",
	} {
		consoletest.Get(t, s, link.To("/messages", "created_after", given))
		if got := consoletest.LastAsked(t, a, "GET /api/v1/messages").Get("created_after"); got != want {
			t.Errorf("%s: got %q, want %q", given, got, want)
		}
	}
}

func TestMessagesSince(t *testing.T) {
	t.Parallel()
	a, s := messagesSite(t, oneMessage(`"next_cursor":"onward","count":{"messages":9,"exact":true},"searched_until":null`))
	const onward = "/messages?cursor=onward&amp;opened=2026-02-20T12%3A00%3A00.000Z&amp;since=1h"
	consoletest.MustHave(t, consoletest.Get(t, s, "/messages?since=1h").Body.String(), onward)
	for path, want := range map[string]string{
		// The age in "since" is counted back from now, and not from an old "opened" time in the address. With a cursor
		// it is counted back from "opened", so that all pages of a list have the same conditions.
		"/messages?since=1h": "2026-02-20T11:00:00.000Z",
		"/messages?opened=2020-01-01T00%3A00%3A00.000Z&since=1h":               "2026-02-20T11:00:00.000Z",
		"/messages?cursor=onward&opened=2026-02-20T09%3A00%3A00.000Z&since=1h": "2026-02-20T08:00:00.000Z",
	} {
		consoletest.Get(t, s, path)
		asked := consoletest.LastAsked(t, a, "GET /api/v1/messages")
		if got := asked.Get("created_after"); got != want || asked.Has("cursor") != strings.Contains(path, "cursor") {
			t.Errorf("%s: got created_after %q with cursor %q, want %q", path, got, asked.Get("cursor"), want)
		}
	}
	for _, since := range []string{"h", "0h", "-1h", "1y", "99999999999d", "1.5h", "é"} {
		a, s := messagesSite(t, oneMessage(nothingBehind))
		w := consoletest.Get(t, s, link.To("/messages", "since", since, "topic", "kept"))
		consoletest.WantSays(t, since, w, http.StatusBadRequest, `value="kept"`, "must be a number and m, h or d")
		if asked, _ := a.Asked("GET /api/v1/messages"); len(asked) > 0 {
			t.Errorf("%s: got %d questions, want none", since, len(asked))
		}
	}
}

func TestMessagesKeepWhatWasTypedWrongly(t *testing.T) {
	t.Parallel()
	_, s := messagesSite(t, consoletest.Refuse(http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR", "q: must be 1 to 10 words", []map[string]any{
		{"field": "q", "reason": "must be 1 to 10 words"}, {"field": "created_after", "reason": "must be a time"}, {"field": "filter", "reason": "is too wide"},
	}))
	w := consoletest.Get(t, s, "/messages?q=no&created_after=yesterday&topic=orders")
	consoletest.WantSays(t, "the page", w, http.StatusBadRequest, `value="no"`, `value="yesterday"`, `value="orders"`,
		`id="filter-q-wrong">must be 1 to 10 words`,
		`id="filter-created_after-wrong">must be a time`, "is too wide", "<details class=\"drop conditions\" open>")
	consoletest.MustNotHave(t, w.Body.String(), "<tbody")
}

func TestMessagesTidyAddresses(t *testing.T) {
	t.Parallel()
	_, s := messagesSite(t, oneMessage(nothingBehind))
	consoletest.WantTo(t, "a form", consoletest.Get(t, s, "/messages?topic=&status=DEAD&q=&key=&sort="), "/messages?status=DEAD")
}

func TestMessagesAreCounted(t *testing.T) {
	t.Parallel()
	count := func(next, count string) consoletest.Raw {
		return oneMessage(`"next_cursor":` + next + `,"count":{` + count + `},"searched_until":null`)
	}
	for path, c := range map[string]struct {
		answer consoletest.Raw
		want   string
	}{
		"/messages?q=bythepage": {count("null", `"messages":700,"exact":false`), "<strong>1</strong> match"},
		"/messages":             {count(`"x"`, `"messages":12431,"exact":true`), "<strong>12,431</strong> match"},
		"/messages?q=roughly":   {count(`"x"`, `"messages":12431,"exact":false`), "<strong>about 12,431</strong> match"},
		"/messages?q=atleast": {
			count(`"x"`, `"messages":10000,"exact":false,"at_least":true`),
			"<strong>at least 10,000</strong> matches</span>",
		},
		"/messages?count=exact": {count(`"x"`, `"messages":12431,"exact":false`), "<strong>about 12,431</strong> matches</span>"},
	} {
		_, s := messagesSite(t, c.answer)
		consoletest.MustHave(t, consoletest.Get(t, s, path).Body.String(), c.want)
	}
	_, s := messagesSite(t, count(`"x"`, `"messages":12431,"exact":false`))
	for path, want := range map[string]bool{"/messages?q=abc": true, "/messages?q=abc&cursor=x&opened=2026-02-20T12:00:00Z": false} {
		body := consoletest.Get(t, s, path).Body.String()
		if got := strings.Contains(body, `hx-trigger="load"`); got != want || !strings.Contains(body, "count exactly") {
			t.Errorf("%s: got counted by itself %t, want %t and a way to ask", path, got, want)
		}
	}
	a, s := messagesSite(t, count(`"x"`, `"messages":12431,"exact":true`))
	body := consoletest.GetPart(t, s, "/messages?q=abc&count=exact", "count")
	consoletest.MustHave(t, body, `<span id="count"><strong>12,431</strong> match`, `<span id="all-count">12,431</span>`)
	consoletest.WantAsked(t, a, "GET /api/v1/messages", "count=exact&limit=1&q=abc")
}

func TestMessagesCountArrivalsAlone(t *testing.T) {
	t.Parallel()
	a, s := messagesSite(t, oneMessage(nothingBehind))
	body := consoletest.Get(t, s, "/messages?topic=orders&since=1h").Body.String()
	consoletest.MustHave(t, body, `hx-get="/messages?seen=2026-02-20T11%3A30%3A00.250Z&amp;since=1h&amp;topic=orders"`, "nothing newer")
	a.Says("GET /api/v1/messages", oneMessage(`"next_cursor":null,"count":{"messages":12,"exact":true},"searched_until":null`))
	body = consoletest.GetPart(t, s, "/messages?seen=2026-02-20T11%3A30%3A00.250Z&since=1h&topic=orders", "arrivals")
	consoletest.MustHave(t, body, "<strong>12 new</strong> since you opened this page", `href="/messages?since=1h&amp;topic=orders"`)
	consoletest.MustNotHave(t, body, "<tbody")
	consoletest.WantAsked(t, a, "GET /api/v1/messages", "count=exact&created_after=2026-02-20T11%3A30%3A00.251Z&limit=1&omit=payload&topic=orders")
	// If newer messages would not be at the top of the list, they are not counted.
	for _, path := range []string{"/messages?sort=created_at", "/messages?cursor=x&opened=2026-02-20T11:30:00Z", "/messages?created_before=2026-02-20"} {
		consoletest.MustNotHave(t, consoletest.Get(t, s, path).Body.String(), `id="arrivals"`)
	}
}

func TestMessagesNameTopicsWhenAsked(t *testing.T) {
	t.Parallel()
	a, s := messagesSite(t, oneMessage(nothingBehind))
	consoletest.Get(t, s, "/messages")
	if asked, _ := a.Asked("GET /api/v1/topics"); len(asked) != 0 {
		t.Error("got topics requested with the page, want them when the field gets the focus")
	}
	a.Says("GET /api/v1/topics", consoletest.Raw(`{"topics":[{"topic":"","dlq_topics":["p.dlq.v1"]},{"topic":"orders","dlq_topics":["p.dlq.v1","orders.dlq.v1"]}]}`))
	body := consoletest.GetPart(t, s, "/messages", "known-topics")
	consoletest.MustHave(t, body,
		`<datalist id="known-topics"><option value="p.dlq.v1"></option><option value="orders"></option><option value="orders.dlq.v1"></option></datalist>`)
}

func TestMessagesChosen(t *testing.T) {
	t.Parallel()
	api := func(t *testing.T) *consoletest.API {
		t.Helper()
		return consoletest.NewAPI(t).Says("GET /api/v1/messages", oneMessage(nothingBehind))
	}
	ahead := consoletest.Raw(strings.ReplaceAll(string(oneMessage(nothingBehind)), "11:30:00.250", "12:00:03.100"))
	consoletest.Shows(t, api, map[string]consoletest.Look{
		"AllAreThoseOfNow": {Path: "/messages?topic=orders&since=1h&sort=-last_retry_at", Has: []string{
			`<input type="hidden" name="created_before" value="2026-02-20T12:00:00.000Z">`,
			`<input type="hidden" name="created_after" value="2026-02-20T11:00:00.000Z">`,
			`<input type="hidden" name="retried_after" value="1970-01-01T00:00:00Z">`, `name="what" value="all">`,
		}},
		"AllIncludeTheNewestWhateverItsClock": {
			Path: "/messages?topic=orders", Says: consoletest.Answers{"GET /api/v1/messages": ahead},
			Has: []string{`name="created_before" value="2026-02-20T12:00:03.101Z"`},
		},
		"AllThereIsCannotBeMeant": {
			Path: "/messages?status=DEAD&since=1h", Has: []string{`name="what" value="all" disabled`, "times and states alone could select every message"},
		},
		"AreNotForViewers": {Path: "/messages", Says: consoletest.Answers{"GET /api/v1/session": consoletest.ReadOnly}, Has: []string{
			`value="retry" disabled`, `value="requeue" disabled`, `value="dead" disabled`, `value="delete" disabled`, "needs the role operator",
		}},
		"AreNotDeletedByOperators": {
			Path: "/messages", Says: consoletest.Answers{"GET /api/v1/session": consoletest.WithRole("operator", "*")},
			Has: []string{`value="retry">`, `value="delete" disabled`, "to delete needs the role admin"},
		},
	})
	for given, want := range map[string]string{
		"action=dead&what=ids&ids=a&ids=b&topic=orders&back=/messages":                "/redrives/new?action=dead&ids=a&ids=b",
		"action=delete&what=all&ids=a&topic=orders&status=DEAD&header=a%3Db&header=c": "/redrives/new?action=delete&header=a%3Db&header=c&status=DEAD&topic=orders",
		"action=retry&what=ids&back=%2Fmessages%3Ftopic%3Dorders":                     "/messages?topic=orders",
		"action=retry&what=ids&back=%2F%2Fevil.example":                               "/",
		"action=explode&ids=a":                         "/redrives/new?action=retry&ids=a",
		"action=csv&what=ids&ids=a&ids=b&topic=orders": "/messages/export?format=csv&id=a&id=b",
		"action=ndjson&what=all&ids=a&topic=orders":    "/messages/export?format=ndjson&topic=orders",
	} {
		form, err := url.ParseQuery(given)
		check.NoError(t, err)
		consoletest.WantTo(t, given, consoletest.Post(t, consoletest.Site(t, api(t)), "/messages/chosen", form), want)
	}
}

func TestMessagesKeepColumns(t *testing.T) {
	t.Parallel()
	_, s := messagesSite(t, oneMessage(nothingBehind))
	w := consoletest.Post(t, s, "/messages/columns", url.Values{"column": {"topic", "nonsense", "size"}, "return": {"/messages?cols=key&q=abc"}})
	consoletest.WantTo(t, "the choice", w, "/messages?q=abc")
	cookie := w.Header().Get("Set-Cookie")
	body := consoletest.Get(t, s, "/messages", "Cookie", messages.ColumnsCookie+"=topic.size").Body.String()
	if !strings.HasPrefix(cookie, messages.ColumnsCookie+"=topic.size;") || strings.Contains(body, "c-status") || !strings.Contains(body, "c-size") {
		t.Errorf("got cookie %s or other columns than were chosen", cookie)
	}
	w = consoletest.Post(t, s, "/messages/columns", url.Values{"usual": {"1"}, "return": {"/archive"}})
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
		"/messages?cursor=x&topic=x":  "There are no more messages.",
		"/messages?topic=x&since=15m": `href="/archive?since=15m&amp;topic=x"`,
	} {
		_, s := messagesSite(t, consoletest.Raw(none))
		consoletest.MustHave(t, consoletest.Get(t, s, path).Body.String(), want)
	}
}

func TestASearchWhoseTimeIsOverGoesOn(t *testing.T) {
	t.Parallel()
	const over = `"next_cursor":"onward","count":null,"searched_until":null,"searched_back_to":"2026-02-20T11:00:00.000+00:00"`
	for path, c := range map[string]struct {
		answer consoletest.Raw
		want   []string
	}{
		"/messages?q=boom": {oneMessage(over), []string{consoletest.MessageID, "Searched back to", "Continue searching", "cursor=onward"}},
		"/messages?q=boom&cursor=x&sort=created_at": {
			consoletest.Raw(`{"messages":[],` + over + `}`), []string{"No message matches so far.", "Searched up to", "Continue searching", "cursor=onward"},
		},
	} {
		_, s := messagesSite(t, c.answer)
		body := consoletest.Get(t, s, path).Body.String()
		consoletest.MustHave(t, body, c.want...)
		consoletest.MustNotHave(t, body, "End of the list", "no more messages")
	}
}

func TestTextThatBecameWordsIsOfferedAsItWasTyped(t *testing.T) {
	t.Parallel()
	_, s := messagesSite(t, oneMessage(`"next_cursor":null`))
	consoletest.WantTo(t, "typed", consoletest.Get(t, s, "/messages?q=order_id%3DSHIP-1"), "/messages?q=order_id+SHIP-1&typed=order_id%3DSHIP-1")
	consoletest.MustHave(t, consoletest.Get(t, s, "/messages?q=order_id+SHIP-1&typed=order_id%3DSHIP-1").Body.String(),
		`<a href="/messages?q=%22order_id%3DSHIP-1%22">Only the exact text <code>order_id=SHIP-1</code>`)
}

func TestArchiveIsAListWithoutActions(t *testing.T) {
	t.Parallel()
	a := consoletest.NewAPI(t).Says("GET /api/v1/archive", oneMessage(`"next_cursor":"x","count":{"messages":70,"exact":false},"searched_until":"2026-02-20T11:00:00.000+00:00"`))
	body := consoletest.Get(t, consoletest.Site(t, a), "/archive?topic=orders").Body.String()
	consoletest.MustHave(t, body, `href="/archive/`+consoletest.MessageID+`"`, "about 70", "/archive?cursor=x&amp;", "as indexed", "source=archive",
		`/redrives/new?action=restore&amp;archived=true&amp;created_before=`, "topic=orders\">Restore these…</a>", "topic=orders\">Retry these…</a>")
	body = consoletest.Get(t, consoletest.Site(t, a), "/archive?created_after=2026-01-01T00:00").Body.String()
	consoletest.MustNotHave(t, body, "Restore these…")
	consoletest.MustNotHave(t, body, `name="ids"`, `id="arrivals"`)
}

func TestExportsArePassedOn(t *testing.T) {
	t.Parallel()
	a := consoletest.NewAPI(t).Says("GET /api/v1/export", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/csv; charset=utf-8")
		w.Header().Set("Content-Disposition", `attachment; filename="messages.csv"`)
		w.Header().Set("X-Api-Only", "kept")
		w.Header().Set("Trailer", "X-Export-Messages, X-Export-Complete")
		_, _ = w.Write([]byte("id\n"))
		_, _ = w.Write([]byte("1\n"))
		w.Header().Set("X-Export-Messages", "1")
		w.Header().Set("X-Export-Complete", "true")
	}))
	res, body, err := export(t, a, "?topic=orders&since=1h&format=csv&source=archive&sort=created_at&done=x") //nolint:bodyclose // export closes it
	if err != nil || body != "id\n1\n" {
		t.Errorf("got %q, %v, want both lines", body, err)
	}
	h := res.Header
	if h.Get("Content-Type") != "text/csv; charset=utf-8" || !strings.HasPrefix(h.Get("Content-Disposition"), "attachment") || h.Get("X-Api-Only") != "" {
		t.Errorf("got headers %v, want a file", h)
	}
	if res.Trailer.Get("X-Export-Complete") != "true" || res.Trailer.Get("X-Export-Messages") != "1" {
		t.Errorf("got trailers %v, want 1 and true", res.Trailer)
	}
	consoletest.WantAsked(t, a, "GET /api/v1/export", "created_after=2026-02-20T11%3A00%3A00.000Z&format=csv&source=archive&topic=orders")

	a = consoletest.NewAPI(t).Says("GET /api/v1/export", consoletest.Refuse(
		http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE", "4 exports are under way already",
		nil,
	))
	w := consoletest.Get(t, consoletest.Site(t, a), "/messages/export?format=csv")
	consoletest.WantSays(t, "refused", w, http.StatusServiceUnavailable, "4 exports are under way already")
	if kind := w.Header().Get("Content-Type"); !strings.HasPrefix(kind, "text/html") {
		t.Errorf("got a refusal as %s, want a page", kind)
	}

	a = consoletest.NewAPI(t).Says("GET /api/v1/export", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("half"))
		panic(http.ErrAbortHandler)
	}))
	if _, _, err := export(t, a, ""); err == nil { //nolint:bodyclose // export closes it
		t.Error("got an export that ends well, want one that is cut")
	}
}

// export requests an export from a real HTTP server, because only then can the connection break off. The returned error
// is the error of reading the answer's body.
func export(t *testing.T, a *consoletest.API, query string) (*http.Response, string, error) {
	t.Helper()
	server := httptest.NewServer(consoletest.Site(t, a))
	t.Cleanup(server.Close)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/messages/export"+query, nil)
	check.NoError(t, err)
	res, err := http.DefaultClient.Do(r)
	check.NoError(t, err)
	body, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	return res, string(body), err
}

func TestMessagesAreTextAndNoMarkup(t *testing.T) {
	t.Parallel()
	answer := consoletest.Quoted(`{"messages":[{"created_at":"2026-02-20T11:00:00Z","dlq_partition":1,"dlq_offset":2,"payload_size":3,
		"key":{"encoding":"utf8","data":"HOSTILE"},"id":"HOSTILE","original_topic":"HOSTILE","error_message":"HOSTILE","cause":"HOSTILE",
		"error_class":"HOSTILE","status":"HOSTILE","group_id":"HOSTILE","dlq_topic":"HOSTILE","consumer_group":"HOSTILE","dialect":"HOSTILE","outcome":"HOSTILE"}],"next_cursor":"HOSTILE","count":{"messages":3,"exact":false}}`)
	typed := url.Values{"cols": {allColumns}, "group_id": {consoletest.GroupID}, "sort": {consoletest.Hostile}}
	for _, name := range []string{"topic", "error_class", "consumer_group", "dialect", "key", "q", "header", "payload", "created_after"} {
		typed.Set(name, consoletest.Hostile)
	}
	query := "?" + typed.Encode()
	typed.Set("since", consoletest.Hostile)
	typed.Del("created_after")
	a, s := messagesSite(t, answer)
	a.Says("GET /api/v1/archive", answer).Says("GET /api/v1/groups/"+consoletest.GroupID, consoletest.Quoted(`{"title":"HOSTILE"}`)).
		Says("GET /api/v1/topics", consoletest.Quoted(`{"topics":[{"topic":"HOSTILE"}]}`))
	bodies := []string{consoletest.GetPart(t, s, "/messages", "known-topics")}
	for _, path := range []string{"/messages" + query, "/archive" + query, "/messages?" + typed.Encode()} {
		bodies = append(bodies, consoletest.Get(t, s, path).Body.String())
	}
	a.Says("GET /api/v1/messages", consoletest.Refuse(http.StatusBadRequest, consoletest.Hostile, consoletest.Hostile, []map[string]any{
		{"field": "q", "reason": consoletest.Hostile},
		{"field": consoletest.Hostile, "reason": consoletest.Hostile},
	}))
	for _, body := range append(bodies, consoletest.Get(t, s, "/messages"+query).Body.String()) {
		consoletest.WantNoMarkup(t, body)
		consoletest.MustHave(t, body, "alert(1)")
	}
}

func TestSavedViews(t *testing.T) {
	t.Parallel()
	const saved = `{"views": [
		{"name": "mine HOSTILE", "owner": "eve", "shared": false, "list": "messages", "query": "status=DEAD&topic=a"},
		{"name": "archived", "owner": "eve", "shared": false, "list": "archive", "query": "status=DEAD"},
		{"name": "theirs", "owner": "bob HOSTILE", "shared": true, "list": "messages", "query": "q=slow&since=24h"}]}`
	a := consoletest.NewAPI(t).As(consoletest.ReadOnly).Says("GET /api/v1/views", consoletest.Quoted(saved)).
		Says("GET /api/v1/messages", oneMessage(nothingBehind)).
		Says("PUT /api/v1/views/Dead ones", consoletest.Raw(`{}`)).Says("DELETE /api/v1/views/theirs", consoletest.Raw(`{}`))
	s := consoletest.Site(t, a)
	body := consoletest.Get(t, s, "/messages?topic=a&status=DEAD&cols=key").Body.String()
	consoletest.MustHave(t, body, `href="/messages?status=DEAD&amp;topic=a" aria-current="page"`, `href="/messages?q=slow&amp;since=24h" title="Shared by bob`,
		`name="query" value="status=DEAD&amp;topic=a"`, `<span class="aside small">shared</span>`)
	// The viewer is neither the owner of the shared view nor an admin, so the page does not offer to delete it.
	consoletest.MustNotHave(t, body, "archived", `name="name" value="theirs"`)
	consoletest.WantNoMarkup(t, body)
	consoletest.MustNotHave(t, consoletest.Get(t, s, "/messages").Body.String(), "Save as a view")

	form := url.Values{"name": {" Dead ones "}, "list": {"messages"}, "query": {"status=DEAD"}, "shared": {"true"}}
	consoletest.WantDone(t, "saving", consoletest.Post(t, s, "/messages/views", form), "view-saved", "/messages?status=DEAD")
	consoletest.WantSent(t, a, "PUT /api/v1/views/Dead ones", `{"list":"messages","query":"status=DEAD","shared":true}`, "")
	form = url.Values{"name": {"theirs"}, "shared": {"true"}, "return": {"/archive?status=DEAD"}}
	consoletest.WantDone(t, "deleting", consoletest.Post(t, s, "/messages/views/delete", form), "view-deleted", "/archive?status=DEAD")
	consoletest.WantAsked(t, a, "DELETE /api/v1/views/theirs", "shared=true")

	a.Says("GET /api/v1/views", consoletest.Refuse(http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE", "needs a database", nil))
	consoletest.WantSays(t, "a list without views", consoletest.Get(t, s, "/messages?topic=a"), http.StatusOK, "processing failed")
}

// The ids of 300 chosen messages do not fit into an address.
func TestManyChosenMessages(t *testing.T) {
	t.Parallel()
	const export, redrives = "GET /api/v1/export", "POST /api/v1/redrives"
	a := consoletest.NewAPI(t).Says(export, consoletest.Raw("{}")).Says(redrives, consoletest.Raw(`{"selected": 300, "sendable": 300}`))
	s := consoletest.Site(t, a)
	form := url.Values{"action": {"csv"}, "what": {"ids"}}
	for i := range 300 {
		form.Add("ids", fmt.Sprint("id-", i))
	}
	consoletest.WantSays(t, "an export", consoletest.Post(t, s, "/messages/chosen", form), http.StatusOK, "{}")
	if asked := consoletest.LastAsked(t, a, export); len(asked["id"]) != 300 || asked.Get("format") != "csv" {
		t.Errorf("got %d ids exported as %s, want 300 as csv", len(asked["id"]), asked.Get("format"))
	}
	consoletest.WantSays(t, "without the draft", consoletest.Get(t, s, "/messages/export?format=csv&draft=x"), http.StatusNotFound, "select the messages again")
	form.Set("action", "retry")
	consoletest.WantSays(t, "a redrive", consoletest.Post(t, s, "/messages/chosen", form), http.StatusOK, "Retry 300 messages", "id-299", `name="canary" inputmode="numeric" value="15"`)
}
