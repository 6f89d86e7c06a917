package messages_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/consoletest"
)

const facetsRoute = "GET /api/v1/messages/facets"

// facetsSite serves the console with an API that gives the answer to requests for facets.
func facetsSite(t *testing.T, answer any) (*consoletest.API, http.Handler) {
	t.Helper()
	a, s := messagesSite(t, oneMessage(nothingBehind))
	a.Says("GET /api/v1/groups/"+consoletest.GroupID, consoletest.Raw(`{"title":"stock timed out"}`)).Says(facetsRoute, answer)
	return a, s
}

const facetsAnswer = `{"as_of":"2026-02-20T11:59:59.000+00:00","filter":{},"matched":{"messages":312,"exact":true},"counted":312,"exact":true,
	"sum":{"path":"$.total","sum":"41250.5","messages":310},"facets":[
	{"by":"$.customer","distinct":{"values":87,"exact":true},"missing":2,"values":[
		{"value":"c-<1>","kind":"string","messages":156,"sum":"12.5","filter":{"group_id":"G","payload":["$.a","$.customer==\"c-<1>\""],"created_before":"2026-02-20T11:59:59.000+00:00"}},
		{"value":"42","kind":"number","messages":3,"sum":null,"filter":null}]},
	{"by":"key","distinct":{"values":1,"exact":true},"missing":0,"values":[
		{"value":"","kind":"string","messages":312,"sum":"1","filter":{"group_id":"G","key":""}}]},
	{"by":"status","distinct":{"values":1,"exact":true},"missing":0,"values":[
		{"value":"PENDING","kind":"string","messages":312,"sum":"1","filter":{"status":["PENDING"]}}]}]}`

func TestFacetsShowValuesAndWhatToDoWithThem(t *testing.T) {
	t.Parallel()
	a, s := facetsSite(t, consoletest.Raw(facetsAnswer))
	w := consoletest.Get(t, s, "/messages/facets?group_id="+consoletest.GroupID+"&since=1h&by=$.customer&by=key&by=status&sum=$.total&sort=created_at")
	consoletest.WantSays(t, "the page", w, http.StatusOK, "<strong>312</strong> messages match", "sum of <code>$.total</code>: <strong>41250.5</strong>", "310 have a number",
		"87 values", "c-&lt;1&gt;", "50 %", `<span class="aside small">number</span>`, "no value", "stock timed out", "85 more values", `value="$.customer"`)
	consoletest.WantAsked(t, a, facetsRoute, "by=%24.customer&by=key&by=status&created_after=2026-02-20T11%3A00%3A00.000Z&group_id="+consoletest.GroupID+"&limit=20&sum=%24.total")
	query := url.Values{
		"group_id": {"G"}, "payload": {"$.a", `$.customer=="c-<1>"`}, "created_before": {"2026-02-20T11:59:59.000+00:00"},
	}
	list := strings.ReplaceAll(query.Encode(), "&", "&amp;")
	query.Set("action", "retry")
	query.Set("counted", "156")
	consoletest.MustHave(t, w.Body.String(), `href="/messages?`+list, `href="/redrives/new?`+strings.ReplaceAll(query.Encode(), "&", "&amp;"))
	// Of the four values in the answer, three have no link to a redrive: a value without a filter, a value with an
	// empty condition, which pages would ignore, and a status, because its redrive would select all messages of the
	// status.
	check.Equal(t, strings.Count(w.Body.String(), "Retry these…"), 1, "links to redrives")
	check.Equal(t, strings.Count(w.Body.String(), `<a class="mono" href="/messages?`), 2, "links to lists")
}

func TestFacetsSayWhatWasNotCounted(t *testing.T) {
	t.Parallel()
	_, s := facetsSite(t, consoletest.Raw(`{"as_of":"2026-02-20T11:59:59.000+00:00","matched":{"messages":250000,"exact":false},"counted":100000,"exact":false,"sum":null,"facets":[
		{"by":"$.a","distinct":{"values":90000,"exact":false},"missing":0,"values":[{"value":"x","kind":"string","messages":7,"sum":null,"filter":{"topic":"orders","payload":["$.a==\"x\""]}}]}]}`))
	w := consoletest.Get(t, s, "/messages/facets?topic=orders&by=$.a")
	consoletest.WantSays(t, "the page", w, http.StatusOK, "about 250,000", "Only the newest 100,000 were counted", "about 90,000 values", "too many values",
		"counted=7&amp;counted_of=100000")
}

// When the address names no facet, the page requests no counts. It suggests facets for the paths in the latest
// payloads, without paths whose value is the mask.
func TestFacetsSuggestPaths(t *testing.T) {
	t.Parallel()
	a, s := facetsSite(t, nil)
	a.Says("GET /api/v1/messages", consoletest.Raw(strings.Replace(string(oneMessage(nothingBehind)), `{"a":[1,{"b":null}]}`, `{"a":[1,{"b":null}],"it's":{"x":1},"card":"***"}`, 1)))
	w := consoletest.Get(t, s, "/messages/facets?topic=orders&by=")
	consoletest.WantTo(t, "an empty choice", w, "/messages/facets?topic=orders")
	w = consoletest.Get(t, s, "/messages/facets?topic=orders")
	consoletest.WantSays(t, "the page", w, http.StatusOK, ">$.a[*]</a>", ">$.a[*].b</a>", `>$[&#39;it\&#39;s&#39;].x</a>`, ">error_class</a>",
		`href="/messages/facets?by=%24.a%5B%2A%5D.b&amp;topic=orders"`)
	consoletest.MustNotHave(t, w.Body.String(), "card")
	asked, _ := a.Asked(facetsRoute)
	check.Len(t, asked, 0, "requests for facets")
}

func TestFacetsKeepWhatWasTypedWrongly(t *testing.T) {
	t.Parallel()
	_, s := facetsSite(t, consoletest.Refuse(http.StatusForbidden, "SYS_DLQ_FORBIDDEN", "by: names something that is masked", []map[string]any{
		{"field": "by", "reason": "names something that is masked"},
	}))
	w := consoletest.Get(t, s, "/messages/facets?topic=orders&by=$.card")
	consoletest.WantSays(t, "the page", w, http.StatusForbidden, `value="$.card"`, `id="facets-wrong">names something that is masked`)
}

func TestFacetsAreExported(t *testing.T) {
	t.Parallel()
	a, s := facetsSite(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/csv")
		_, _ = w.Write([]byte("by,value"))
	}))
	w := consoletest.Get(t, s, "/messages/facets?topic=orders&by=key&sum=$.n&format=csv")
	consoletest.WantSays(t, "the table", w, http.StatusOK, "by,value")
	consoletest.WantAsked(t, a, facetsRoute, "by=key&format=csv&limit=1000&sum=%24.n&topic=orders")
}

func TestMessagesLinkToTheirFacets(t *testing.T) {
	t.Parallel()
	_, s := messagesSite(t, oneMessage(nothingBehind))
	consoletest.MustHave(t, consoletest.Get(t, s, "/messages?topic=orders&since=1h&sort=created_at").Body.String(), `href="/messages/facets?since=1h&amp;topic=orders"`)
}
