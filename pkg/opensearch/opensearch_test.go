package opensearch

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

func TestPlainNumber(t *testing.T) {
	t.Parallel()
	for canonical, want := range map[string]string{
		"0": "0", "7": "7", "-7": "-7", "1e2": "100", "75e-1": "7.5", "-1e-3": "-0.001", "125e-2": "1.25", "-12e1": "-120", "1e400": "1e400", "1e-400": "1e-400",
	} {
		check.Same(t, plainNumber(canonical), want, "plainNumber(%s)", canonical)
		check.True(t, json.Valid([]byte(plainNumber(canonical))), "%s is no JSON", want)
	}
}

func TestDayOf(t *testing.T) {
	t.Parallel()
	for at, want := range map[string]string{
		"2026-03-04T23:59:59+01:00": "2026-03-04", "2026-03-04T00:30:00+01:00": "2026-03-03", "1970-01-01T00:00:00Z": "1999-12-31", "2345-01-01T00:00:00Z": "2100-01-01",
	} {
		check.Same(t, DayOf(check.Must(time.Parse(time.RFC3339, at))(t)).Format(time.DateOnly), want, "day of %s", at)
	}
}

func TestConfig_NamesEveryProblem(t *testing.T) {
	t.Parallel()
	check.NoError(t, DefaultConfig().Validate())
	err := Config{URL: []string{"search:9200", "https://u:p@search"}, Username: "u", TokenFile: "t", IndexPrefix: "Upper", Timeout: time.Hour}.Validate()
	for _, want := range []string{"url", "password_file", "token_file", "index_prefix", "timeout"} {
		check.True(t, err != nil && strings.Contains(err.Error(), "search.opensearch") && strings.Contains(err.Error(), want), "got %v, want it to name %s", err, want)
	}
}

// answering returns a Client of a server that gives one answer, and the last request.
func answering(t *testing.T, cfg Config, status int, body string) (*Client, *http.Request) {
	t.Helper()
	last := new(http.Request)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*last = *r
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	cfg.URL, cfg.IndexPrefix, cfg.Timeout = []string{server.URL}, "p", 10*time.Second
	return check.Must(New(cfg))(t), last
}

// TestErrors: an error of the server has a kind, and no more than the beginning of the server's text.
func TestErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		body   string
		kind   error
	}{
		"Overloaded":   {http.StatusTooManyRequests, `{"error":{"type":"rejected","reason":"` + strings.Repeat("x", 5000) + `"}}`, repository.ErrEngineAway},
		"ReadOnly":     {http.StatusForbidden, `{"error":{"type":"cluster_block_exception","reason":"read-only"}}`, repository.ErrEngineAway},
		"Unauthorized": {http.StatusUnauthorized, `Unauthorized`, repository.ErrEngineAway},
		"NoJSON":       {http.StatusOK, `<html>`, repository.ErrEngineAway},
		"BadQuery":     {http.StatusBadRequest, `{"error":{"type":"query_shard_exception","reason":"too long"}}`, &repository.TooBroadError{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, _ := answering(t, DefaultConfig(), c.status, c.body)
			_, err := client.Find(t.Context(), 1, Query{}, Page{Limit: 1})
			var broad *repository.TooBroadError
			if errors.As(c.kind, &broad) {
				check.True(t, errors.As(err, &broad), "got %v, want a TooBroadError", err)
				return
			}
			check.True(t, errors.Is(err, c.kind) && errors.Is(err, entity.ErrUnavailable) && len(err.Error()) < 600, "got %.700v, want %v", err, c.kind)
		})
	}
}

// serving returns a Client of a server with a handler, and how many requests the server got.
func serving(t *testing.T, timeout time.Duration, handler http.HandlerFunc) (*Client, *atomic.Int64) {
	t.Helper()
	requests := new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		handler(w, r)
	}))
	t.Cleanup(server.Close)
	cfg := DefaultConfig()
	cfg.URL, cfg.Timeout = []string{server.URL}, timeout
	return check.Must(New(cfg))(t), requests
}

// TestErrors_SayWhy: users see why OpenSearch refuses a request, but no address and no text of OpenSearch; the log has the
// text and its causes.
func TestErrors_SayWhy(t *testing.T) {
	t.Parallel()
	reason := func(err error) string {
		var away *repository.EngineAwayError
		check.Require(t, errors.As(err, &away), "got %v, want an EngineAwayError", err)
		return away.Reason
	}
	client, _ := answering(t, DefaultConfig(), http.StatusTooManyRequests,
		`{"error":{"type":"a","reason":"b","root_cause":[{"type":"circuit_breaking_exception","reason":"outer","caused_by":{"type":"x","reason":"inner"}}]}}`)
	_, err := client.Find(t.Context(), 1, Query{}, Page{Limit: 1})
	check.Same(t, reason(err), "it answers with status 429: circuit_breaking_exception", "reason of an overload")
	check.True(t, strings.Contains(err.Error(), "outer: inner"), "%v lacks the cause", err)
	client, _ = answering(t, DefaultConfig(), http.StatusBadGateway, "no healthy upstream")
	err = client.Ping(t.Context())
	check.Same(t, reason(err), "it answers with status 502", "reason of a proxy")
	check.True(t, strings.Contains(err.Error(), "no healthy upstream"), "%v lacks the text", err)
	cfg := DefaultConfig()
	cfg.URL = []string{"http://127.0.0.1:1"}
	check.Same(t, reason(check.Must(New(cfg))(t).Ping(t.Context())), "it cannot be reached", "reason without a server")
}

// TestLate: a request that gets no answer in time names its limit. That includes all tries of a search.
func TestLate(t *testing.T) {
	t.Parallel()
	const limit = 100 * time.Millisecond
	silent, _ := serving(t, limit, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // a server notices only then that the client leaves
		<-r.Context().Done()
	})
	starts, _ := serving(t, limit, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"error":{"type":"search_phase_execution_exception","reason":"all shards failed","root_cause":[]}}`)
	})
	for name, client := range map[string]*Client{"silent": silent, "starting": starts} {
		_, err := client.Find(t.Context(), 1, Query{}, Page{Limit: 1})
		check.True(t, errors.Is(err, repository.ErrEngineLate) && errors.Is(err, repository.ErrEngineAway) && errors.Is(err, entity.ErrUnavailable) &&
			strings.Contains(err.Error(), "within 100ms"), "%s: got %v, want an error that names the limit", name, err)
	}
}

// TestSearch_WaitsOnlyForNewIndexes: a search is sent again while an index starts, and not to an OpenSearch that is overloaded.
func TestSearch_WaitsOnlyForNewIndexes(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]int64{"no_shard_available_action_exception": 3, "cluster_block_exception": 1} {
		var client *Client
		var requests *atomic.Int64
		client, requests = serving(t, time.Minute, func(w http.ResponseWriter, _ *http.Request) {
			if requests.Load() == 3 {
				_, _ = io.WriteString(w, `{}`)
				return
			}
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"error":{"type":"`+kind+`","reason":""}}`)
		})
		_, err := client.Find(t.Context(), 1, Query{}, Page{Limit: 1})
		check.True(t, requests.Load() == want && (err == nil) == (want > 1), "%s: got %v after %d requests, want %d requests", kind, err, requests.Load(), want)
	}
}

// TestUpdate_LargeDocuments: documents that are together too large for one answer are read and written in parts.
func TestUpdate_LargeDocuments(t *testing.T) {
	t.Parallel()
	text, written := strings.Repeat("x", 3000), map[string]bool{}
	client, _ := serving(t, time.Minute, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/_bulk" {
			var items []string
			for lines := bufio.NewScanner(r.Body); lines.Scan(); {
				var action map[string]target
				if json.Unmarshal(lines.Bytes(), &action) == nil && action["index"].ID != "" {
					written[action["index"].ID] = true
					items = append(items, `{"index":{"status":200}}`)
				}
			}
			_, _ = io.WriteString(w, `{"items":[`+strings.Join(items, ",")+`]}`)
			return
		}
		var q struct {
			Query struct{ Terms struct{ ID []uuid.UUID } }
		}
		check.NoError(t, json.NewDecoder(r.Body).Decode(&q))
		var hits []string
		for _, id := range q.Query.Terms.ID {
			hits = append(hits, fmt.Sprintf(`{"_index":"dlq-manager-0000000000000001-2026-03-04","_id":"%s","_source":{"text":"%s"}}`, id, text))
		}
		_, _ = io.WriteString(w, `{"hits":{"hits":[`+strings.Join(hits, ",")+`]}}`)
	})
	client.maxAnswer = 10_000
	var ids []uuid.UUID
	var facts []repository.EngineFacts
	for range 50 {
		id := uuid.New()
		ids, facts = append(ids, id), append(facts, repository.EngineFacts{ID: id, CreatedAt: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)})
	}
	_, lost, err := client.Update(t.Context(), 1, 2, ids, facts)
	check.True(t, err == nil && len(lost) == 0 && len(written) == len(ids), "got %v, %d lost and %d written of %d documents", err, len(lost), len(written), len(ids))
	client.maxAnswer = 1000
	_, _, err = client.Update(t.Context(), 1, 2, ids, facts)
	check.True(t, errors.Is(err, repository.ErrEngineAway), "got %v for a document that is too large for one answer", err)
}

// TestWrites_ReportWhatWasRefused: of one request, some writes may fail.
func TestWrites_ReportWhatWasRefused(t *testing.T) {
	t.Parallel()
	old, broken := uuid.New(), uuid.New()
	documents := []Document{{EngineFacts: repository.EngineFacts{ID: old}}, {EngineFacts: repository.EngineFacts{ID: broken}}}
	write := func(second string) (map[uuid.UUID]bool, error) {
		client, _ := answering(t, DefaultConfig(), http.StatusOK, `{"items":[{"index":{"status":409,"error":{"type":"version_conflict","reason":""}}},{"index":`+second+`}]}`)
		return client.Write(t.Context(), 1, 2, documents)
	}
	refused, err := write(`{"status":200}`)
	check.True(t, err == nil && refused[old] && !refused[broken], "got %v, %v, want one that a later write has replaced", refused, err)
	_, err = write(`{"status":400,"error":{"type":"mapper_parsing_exception","reason":"bad"}}`)
	check.True(t, errors.Is(err, entity.ErrInvalid) && !errors.Is(err, repository.ErrEngineAway), "got %v, want a document that cannot be stored", err)
	_, err = write(`{"status":403,"error":{"type":"cluster_block_exception","reason":"read-only"}}`)
	check.True(t, errors.Is(err, repository.ErrEngineAway), "got %v, want an engine that takes no documents", err)
	_, err = write(`{"status":404,"error":{"type":"index_not_found_exception","reason":"no index may be created"}}`)
	check.True(t, err != nil, "a document whose index could not be created counts as stored")
	client, _ := answering(t, DefaultConfig(), http.StatusOK, `{"items":[]}`)
	_, err = client.Write(t.Context(), 1, 2, documents)
	check.True(t, errors.Is(err, repository.ErrEngineAway), "got %v, want an answer that is not complete", err)
}

// TestSecrets: the files are read for each request.
func TestSecrets(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "secret")
	for name, cfg := range map[string]Config{"token": {TokenFile: path}, "password": {Username: "u", PasswordFile: path}} {
		client, last := answering(t, cfg, http.StatusOK, `{}`)
		check.NoError(t, os.WriteFile(path, []byte("one\n"), 0o600))
		check.NoError(t, client.Ping(t.Context()))
		first := last.Header.Get("Authorization")
		check.NoError(t, os.WriteFile(path, []byte("two\n"), 0o600))
		check.NoError(t, client.Ping(t.Context()))
		check.True(t, first != "" && first != last.Header.Get("Authorization"), "%s: got %q twice", name, first)
	}
}

// TestAway: a server that does not answer is away, and a caller that has left is not told so.
func TestAway(t *testing.T) {
	t.Parallel()
	client, _ := answering(t, DefaultConfig(), http.StatusOK, `{}`)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	check.True(t, !errors.Is(client.Ping(gone), repository.ErrEngineAway), "got an engine that is away, want a caller that has left")
	cfg := DefaultConfig()
	cfg.URL = []string{"http://127.0.0.1:1"}
	away := check.Must(New(cfg))(t)
	check.True(t, errors.Is(away.Ping(t.Context()), repository.ErrEngineAway), "got no error of a server that is away")
}

// TestQuery_HasThePermissions: the topics that a caller may see are a part of the query, and messages whose documents may
// be out of date are left to the store.
func TestQuery_HasThePermissions(t *testing.T) {
	t.Parallel()
	changed := uuid.New()
	q := Query{Scope: repository.EngineScope{Visible: &repository.EngineTopics{Originals: []string{"mine", ""}, DeadLetters: []string{"mine.dlq"}}}, Changed: []uuid.UUID{changed}}
	text := string(check.Must(json.Marshal(q.clauses()))(t))
	for _, want := range []string{`{"terms":{"topic":["mine"]}}`, `{"term":{"topic":""}}`, `{"terms":{"dlq_topic":["mine.dlq"]}}`, `{"term":{"archived":false}}`, changed.String()} {
		check.True(t, strings.Contains(text, want), "the query %s lacks %s", text, want)
	}
	q.AnyState = true
	check.Same(t, len(q.clauses()), 0, "conditions on what may change")
}
