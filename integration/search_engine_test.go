package integration_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/integration/stack"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// TestFaultSearchEngineAPI: an API whose search index is in OpenSearch finds messages, counts facets and previews
// redrives by text. While OpenSearch is down, the API answers these requests with status 503; a list and facets without
// a text, and /readyz, still work.
func TestFaultSearchEngineAPI(t *testing.T) {
	t.Parallel()
	node := check.Must(stack.StartOpenSearch(t.Context()))(t)
	t.Cleanup(func() { check.NoError(t, node.Stop()) })
	l := newLetters(newSystem(t))
	l.startReady("ingester")
	l.produce(20, nil)
	api := l.startReady("api", "DLQ_SEARCH_ENGINE=opensearch", "DLQ_SEARCH_OPENSEARCH_URL="+node.Address, "DLQ_SEARCH_OPENSEARCH_TIMEOUT=5s")
	send := func(method, path, body string) (int, string) {
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
	var word string
	eventually(t, time.Minute, "the messages are stored", func() bool {
		_, body := send(http.MethodGet, "/api/v1/messages?limit=50&count=exact", "")
		return strings.Count(body, `"original_topic"`) == 20
	})
	check.NoError(t, l.db.Get(&word, `SELECT substr(error_message, 1, 10) FROM dlq.dlq_messages LIMIT 1`))
	search := "/api/v1/messages?limit=50&count=exact&q=" + url.QueryEscape(`"`+word+`"`)
	eventually(t, time.Minute, "OpenSearch finds the messages", func() bool {
		status, body := send(http.MethodGet, search, "")
		return status == http.StatusOK && strings.Count(body, `"original_topic"`) == 20
	})
	var inDatabase int
	check.NoError(t, l.db.Get(&inDatabase, `SELECT count(*) FROM dlq.message_documents WHERE text <> ''`))
	check.Same(t, inDatabase, 0, "documents with text in the database")
	facets := "/api/v1/messages/facets?by=topic&q=" + url.QueryEscape(`"`+word+`"`)
	eventually(t, time.Minute, "the facets are as of a time after the messages", func() bool {
		status, body := send(http.MethodGet, facets, "")
		return status == http.StatusOK && strings.Contains(body, `"counted":20`)
	})
	redrive := check.Must(json.Marshal(map[string]any{"action": "dead", "filter": map[string]any{"q": `"` + word + `"`}, "dry_run": true}))(t)
	status, body := send(http.MethodPost, "/api/v1/redrives", string(redrive))
	check.True(t, status == http.StatusOK && strings.Contains(body, `"messages":20`), "preview: %d %s", status, body)

	check.NoError(t, node.Kill())
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
	check.NoError(t, node.Restart(t.Context()))
	eventually(t, time.Minute, "OpenSearch finds the messages again", func() bool {
		status, body := send(http.MethodGet, search, "")
		return status == http.StatusOK && strings.Count(body, `"original_topic"`) == 20
	})
}
