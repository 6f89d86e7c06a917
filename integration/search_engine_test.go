package integration_test

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/integration/proxy"
	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// sendTo sends a request to a program, and returns the status and the text of the answer.
func sendTo(t *testing.T, api *process, method, path, body string) (int, string) {
	t.Helper()
	r := check.Must(http.NewRequestWithContext(t.Context(), method, api.url+path, strings.NewReader(body)))(t)
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	check.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	var text json.RawMessage
	check.NoError(t, json.NewDecoder(res.Body).Decode(&text))
	return res.StatusCode, string(text)
}

// newIndexed returns a system, a proxy to OpenSearch, the address of OpenSearch itself, and the settings of an API whose
// search index is there.
func newIndexed(t *testing.T) (l *letters, p *proxy.Proxy, node string, environ []string) {
	t.Helper()
	node = strings.TrimPrefix(stacktest.OpenSearch(t).Address, "http://")
	p = newProxy(t, nil)
	p.To(node)
	return newLetters(newSystem(t)), p, node, []string{
		"DLQ_SEARCH_ENGINE=opensearch", "DLQ_SEARCH_OPENSEARCH_URL=http://" + p.Addr(),
		"DLQ_SEARCH_OPENSEARCH_INDEX_PREFIX=api-" + strings.ToLower(rand.Text()),
	}
}

// TestFaultSlowSearchEngineAPI: while OpenSearch answers slowly, searches find all messages; when it answers later than the
// time limit, they name this limit, and everything that needs no documents works. Nothing is lost.
func TestFaultSlowSearchEngineAPI(t *testing.T) {
	t.Parallel()
	l, p, _, environ := newIndexed(t)
	l.startReady("ingester")
	l.produce(20, nil)
	api := l.startReady("api", append(environ, "DLQ_SEARCH_OPENSEARCH_TIMEOUT=2s")...)
	get := func(path string) (int, string) { return sendTo(t, api, http.MethodGet, path, "") }
	list := "/api/v1/messages?limit=100&count=exact"
	found := func(path string, n int) func() bool {
		return func() bool {
			status, body := get(path)
			return status == http.StatusOK && strings.Count(body, `"original_topic"`) == n
		}
	}
	eventually(t, "the messages are stored", found(list, 20))
	var word string
	check.NoError(t, l.db.Get(&word, `SELECT substr(error_message, 1, 10) FROM dlq.dlq_messages LIMIT 1`))
	search := list + "&q=" + url.QueryEscape(`"`+word+`"`)
	served := func() (yes bool) {
		check.NoError(t, l.db.Get(&yes, `SELECT filled FROM dlq.search_index`))
		return yes
	}
	eventually(t, "OpenSearch is filled", served)
	eventually(t, "OpenSearch finds the messages", found(search, 20))

	p.Slow(proxy.Slowness{Latency: 100 * time.Millisecond})
	check.True(t, found(search, 20)(), "a search in a slow OpenSearch does not find all messages")
	hears := api.listen()
	p.Slow(proxy.Slowness{Latency: 30 * time.Second})
	status, body := get(search)
	check.True(t, status == http.StatusServiceUnavailable && strings.Contains(body, "within 2s"), "search of a late OpenSearch: %d %s", status, body)
	l.produce(20, nil)
	eventually(t, "new messages are in the list", found(list, 40))
	status, body = get("/api/v1/messages/facets?by=topic")
	check.True(t, status == http.StatusOK && strings.Contains(body, `"exact":true`), "facets without text of a late OpenSearch: %d %s", status, body)
	hears.says("the search engine does not answer")

	p.Slow(proxy.Slowness{})
	p.CutAll()
	eventually(t, "OpenSearch finds all messages again", found(search, 40))
}

// TestFaultSearchEngineAPI: an API whose search index is in OpenSearch finds messages, counts facets and previews
// redrives by text. While it cannot connect to OpenSearch, the API answers these requests with status 503; a list and
// facets without a text, and /readyz, still work.
func TestFaultSearchEngineAPI(t *testing.T) {
	t.Parallel()
	l, p, node, environ := newIndexed(t)
	l.startReady("ingester")
	l.produce(20, nil)
	api := l.startReady("api", append(environ, "DLQ_SEARCH_OPENSEARCH_TIMEOUT=5s")...)
	send := func(method, path, body string) (int, string) { return sendTo(t, api, method, path, body) }
	var word string
	eventually(t, "the messages are stored", func() bool {
		_, body := send(http.MethodGet, "/api/v1/messages?limit=50&count=exact", "")
		return strings.Count(body, `"original_topic"`) == 20
	})
	check.NoError(t, l.db.Get(&word, `SELECT substr(error_message, 1, 10) FROM dlq.dlq_messages LIMIT 1`))
	search := "/api/v1/messages?limit=50&count=exact&q=" + url.QueryEscape(`"`+word+`"`)
	eventually(t, "OpenSearch finds the messages", func() bool {
		status, body := send(http.MethodGet, search, "")
		return status == http.StatusOK && strings.Count(body, `"original_topic"`) == 20
	})
	var inDatabase int
	check.NoError(t, l.db.Get(&inDatabase, `SELECT count(*) FROM dlq.message_documents WHERE text <> ''`))
	check.Same(t, inDatabase, 0, "documents with text in the database")
	facets := "/api/v1/messages/facets?by=topic&q=" + url.QueryEscape(`"`+word+`"`)
	eventually(t, "the facets are as of a time after the messages", func() bool {
		status, body := send(http.MethodGet, facets, "")
		return status == http.StatusOK && strings.Contains(body, `"counted":20`)
	})
	redrive := check.Must(json.Marshal(map[string]any{"action": "dead", "filter": map[string]any{"q": `"` + word + `"`}, "dry_run": true}))(t)
	status, body := send(http.MethodPost, "/api/v1/redrives", string(redrive))
	check.True(t, status == http.StatusOK && strings.Contains(body, `"messages":20`), "preview: %d %s", status, body)

	p.To("")
	p.CutAll()
	for _, path := range []string{search, facets} {
		status, body = send(http.MethodGet, path, "")
		check.True(t, status == http.StatusServiceUnavailable && strings.Contains(body, "the search engine does not answer"), "%s without OpenSearch: %d %s", path, status, body)
	}
	status, body = send(http.MethodPost, "/api/v1/redrives", string(redrive))
	check.True(t, status == http.StatusServiceUnavailable, "preview without OpenSearch: %d %s", status, body)
	status, body = send(http.MethodGet, "/api/v1/messages?limit=50&status=PENDING", "")
	check.True(t, status == http.StatusOK && strings.Count(body, `"original_topic"`) == 20, "list without OpenSearch: %d %s", status, body)
	status, body = send(http.MethodGet, "/api/v1/messages/facets?by=topic", "")
	check.True(t, status == http.StatusOK && strings.Contains(body, `"counted":20`), "facets without text, without OpenSearch: %d %s", status, body)
	status, body = send(http.MethodGet, "/readyz", "")
	check.True(t, status == http.StatusOK && strings.Contains(body, `"opensearch"`), "readiness without OpenSearch: %d %s", status, body)
	p.To(node)
	eventually(t, "OpenSearch finds the messages again", func() bool {
		status, body := send(http.MethodGet, search, "")
		return status == http.StatusOK && strings.Count(body, `"original_topic"`) == 20
	})
}
