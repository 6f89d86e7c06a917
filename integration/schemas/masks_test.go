package schemas_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/dlq-manager/dlq-manager/integration/registry/official"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/rest/openapi"
)

// hidden is a text that the records contain only in masked fields, in keys that are encoded like payloads, and in
// payloads that cannot be decoded.
const hidden = "Xanadu"

const (
	cardAvro = `{"type": "record", "name": "Paid", "fields": [{"name": "note", "type": "string"},
		{"name": "card", "type": {"type": "record", "name": "Card", "fields": [{"name": "holderName", "type": "string"}]}}]}`
	cardProto = `syntax = "proto3"; message Paid { string note = 1; Card card = 2; }
		message Card { string holder_name = 1; }`
)

// No answer of the API shows a viewer a masked field of an Avro or Protobuf payload, not even the difference of an edit
// or an export. A payload that cannot be decoded is hidden completely, because it may contain masked fields. Logs and
// traces do not contain the masked text either.
func TestMaskedFieldsAreNowhere(t *testing.T) {
	tokens := tokensFile(t, map[string][]string{"admin": {"admin", "unmask"}, "viewer": {"viewer", "edit"}})
	admin, viewer := tokenOf("admin"), tokenOf("viewer")
	traces := newTraces(t)
	s := newSite(t, fmt.Sprintf("masking: {payload: [$.card.holderName]}\nauth: {mode: token, tokens_file: %q}\n"+
		"tracing: {endpoint: %q}\n", tokens, traces.url))
	paid, dead := s.topic("paid"), s.topic("paid.dlq.v1")
	s.register(paid+"-value", official.Avro, cardAvro, nil)      // id 1
	s.register(paid+"-proto", official.Protobuf, cardProto, nil) // id 2
	inAvro := check.Must(check.Must(avro.Parse(cardAvro))(t).Encode(map[string]any{
		"note": "first", "card": map[string]any{"holderName": hidden},
	}))(t)
	card := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), hidden)
	inProto := protowire.AppendString(protowire.AppendTag([]byte{0}, 1, protowire.BytesType), "first")
	inProto = protowire.AppendBytes(protowire.AppendTag(inProto, 2, protowire.BytesType), card)
	values := [][]byte{
		framed(1, inAvro), framed(2, inProto),
		// These two cannot be decoded: the first does not fit its schema, and the second names an unknown schema.
		framed(1, []byte("\x7f"+hidden)), framed(999, inAvro),
	}
	for i, value := range values {
		key := fmt.Append(nil, "key-", i)
		if i < 2 {
			key = values[i]
		}
		s.produce(&kgo.Record{Topic: dead, Key: key, Value: value, Headers: []kgo.RecordHeader{
			{Key: "kafka_dlt-original-topic", Value: []byte(paid)},
			{Key: "kafka_dlt-exception-fqcn", Value: []byte("com.acme.Timeout")},
		}})
	}
	programs := []string{s.start("ingester").Log, s.start("api").Log}
	s.token = admin
	var found []map[string]any
	check.Eventually(t, "all messages are found by their keys", func() bool {
		found = s.pages("/api/v1/messages?unmask=true&topic="+paid, "messages")
		return len(found) == len(values) && len(s.pages("/api/v1/messages?key=key-3", "messages")) == 1
	})
	check.Equal(t, len(s.pages("/api/v1/messages?payload=%24.note+%3D+first", "messages")), 2, "found by a payload")
	s.token = viewer
	s.call(http.MethodGet, "/api/v1/messages/facets?by=$.card.holderName", nil, http.StatusForbidden, nil)
	var facets struct {
		Counted int
		Facets  []json.RawMessage
	}
	check.Eventually(t, "a facet counts all messages", func() bool {
		s.call(http.MethodGet, "/api/v1/messages/facets?by=$.note&by=key&topic="+paid, nil, http.StatusOK, &facets)
		return facets.Counted == len(values)
	})
	check.True(t, bytes.Contains(facets.Facets[0], []byte(`"missing":2,"values":[{"value":"first","kind":"string","messages":2,`)), "facet of a field: %s", facets.Facets[0])
	check.True(t, bytes.Contains(facets.Facets[1], []byte(`"missing":2,`)) && !leaks(facets.Facets[1]), "facet of keys: %s", facets.Facets[1])
	s.token = admin
	decoded := 0
	for _, m := range found {
		payload, ok := m["payload"].(map[string]any)
		if !ok {
			continue
		}
		decoded++
		check.Equal(t, payload["card"], any(map[string]any{"holderName": hidden}), "unmasked card")
		s.token = viewer
		_, form := s.get("/messages/" + m["id"].(string) + "/edit")
		check.True(t, bytes.Contains(form, []byte("first")) && !leaks(form), "the form of an edit: %s", form)
		s.token = admin
		payload["note"], payload["card"] = "second", map[string]any{"holderName": "not " + hidden}
		s.call(http.MethodPost, "/api/v1/dlq/messages/"+m["id"].(string)+"/retry",
			map[string]any{"edit": map[string]any{"payload": payload}}, http.StatusOK, nil)
	}
	check.Equal(t, decoded, 2, "messages with a decoded payload")
	for _, r := range s.consume(paid, 2) {
		check.True(t, bytes.Contains(r.Value, []byte("not "+hidden)), "the sent record has %q", r.Value)
	}

	s.token = viewer
	for _, m := range s.pages("/api/v1/messages?topic="+paid, "messages") {
		id := m["id"].(string)
		if payload, ok := m["payload"].(map[string]any); ok {
			check.Equal(t, payload["card"], any(map[string]any{"holderName": "***"}), "masked card")
		}
		status, _ := s.get("/api/v1/dlq/messages/" + id + "/payload")
		check.Equal(t, status, http.StatusForbidden, "status of the bytes for a viewer")
		group, _ := m["group_id"].(string)
		for _, path := range regexp.MustCompile(`(?m)^  (/\S+):$`).FindAllStringSubmatch(string(openapi.Document), -1) {
			for _, of := range []string{id, group} {
				for _, query := range []string{"", "?format=csv", "?topic=" + paid, "?q=" + hidden, "?part=key", "?by=key"} {
					if path[1] == "/api/v1/messages/facets" && query == "?q="+hidden {
						continue // this answer repeats the filter of the request, which contains the hidden text
					}
					s.wantHidden(strings.NewReplacer("{id}", of, "{topic}", paid).Replace(path[1]) + query)
				}
			}
		}
		message := "/messages/" + id
		compared := "/groups/" + group + "/compare?a=" + id + "&b=" + found[0]["id"].(string)
		for _, page := range []string{
			"/messages", message, message + "/edit", message + "/schema", "/groups/" + group, compared, "/audit",
		} {
			s.wantHidden(page)
		}
	}
	s.wantHistoryOfEdits(found)
	for _, format := range []string{"ndjson", "csv"} {
		status, body := s.get("/api/v1/export?format=" + format + "&topic=" + paid)
		check.Equal(t, status, http.StatusOK, "status of an export")
		check.True(t, bytes.Count(body, []byte("***")) >= 2 && !leaks(body), "export: %s", body)
	}
	check.Equal(t, len(s.pages("/api/v1/messages?q="+hidden, "messages")), 0, "messages found by the masked text")
	status, _ := s.get("/api/v1/messages?payload=%24.card.holderName+%3D+" + hidden)
	check.Equal(t, status, http.StatusForbidden, "status of a search by the masked field")
	check.Eventually(t, "the traces of both programs were sent", func() bool {
		return traces.has("GET /api/v1/export") && traces.has("ingester")
	})
	check.True(t, !traces.has(hidden), "a trace has the masked text")
	for _, path := range programs {
		check.True(t, !leaks(check.Must(os.ReadFile(path))(t)), "the log %s has the masked text", filepath.Base(path))
	}
}

// wantHistoryOfEdits checks that the histories of two messages show which fields an edit changed, and that no history
// shows the masked text.
func (s *site) wantHistoryOfEdits(found []map[string]any) {
	s.t.Helper()
	differences := 0
	for _, m := range found {
		_, body := s.get("/api/v1/dlq/messages/" + m["id"].(string) + "/history")
		if bytes.Contains(body, []byte(`"second"`)) {
			differences++
		}
		check.True(s.t, !leaks(body), "a history has the masked text: %s", body)
	}
	check.Equal(s.t, differences, 2, "histories with the difference of an edit")
}

// tokensFile returns a file with a token for each principal, who has the roles on all topics.
func tokensFile(t *testing.T, principals map[string][]string) string {
	t.Helper()
	var text strings.Builder
	for name, roles := range principals {
		fmt.Fprintf(&text, "- name: %s\n  sha256: %x\n  expires_at: %s\n  grants:\n", name,
			sha256.Sum256([]byte(tokenOf(name))), time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
		for _, role := range roles {
			fmt.Fprintf(&text, "    - {role: %s, topics: [\"*\"]}\n", role)
		}
	}
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	check.NoError(t, os.WriteFile(path, []byte(text.String()), 0o600))
	return path
}

// tokenOf derives a token from the name of a principal, so that the same name always has the same token.
func tokenOf(name string) string {
	secret := sha256.Sum256([]byte(name))
	return "dlqm_" + base64.RawURLEncoding.EncodeToString(secret[:])
}

// get requests a path of the API with the site's token, and returns the status and the body of the answer.
func (s *site) get(path string) (status int, body []byte) {
	s.t.Helper()
	return s.send(http.MethodGet, path, nil)
}

// send sends a request like get, with a body in JSON.
func (s *site) send(method, path string, text io.Reader) (status int, body []byte) {
	s.t.Helper()
	req := check.Must(http.NewRequestWithContext(s.t.Context(), method, s.api+path, text))(s.t)
	req.Header.Set("Authorization", "Bearer "+s.token)
	if text != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	check.NoError(s.t, err)
	defer res.Body.Close()
	return res.StatusCode, check.Must(io.ReadAll(res.Body))(s.t)
}

func (s *site) wantHidden(path string) {
	s.t.Helper()
	status, body := s.get(path)
	own := strings.Contains(path, hidden) && status != http.StatusOK // an error may repeat the request's hidden text
	check.True(s.t, own || !leaks(body), "GET %s shows the masked text: %s", path, body)
}

// leaks reports whether a text contains the hidden text, in plain form or in base64 at any position.
func leaks(text []byte) bool {
	for i := range 3 {
		encoded := base64.StdEncoding.EncodeToString(append(make([]byte, i), hidden...))
		inner := strings.TrimRight(encoded, "=")
		if bytes.Contains(text, []byte(inner[2*min(i, 1)+i/2:len(inner)-1])) {
			return true
		}
	}
	return bytes.Contains(bytes.ToLower(text), []byte(strings.ToLower(hidden)))
}

// traces is a collector that stores the bytes of all spans that the programs send, without decoding them.
type traces struct {
	url string
	mu  sync.Mutex
	got bytes.Buffer
}

func newTraces(t *testing.T) *traces {
	t.Helper()
	c := &traces{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/x-protobuf")
		body, err := gzip.NewReader(r.Body)
		if err == nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			_, err = c.got.ReadFrom(body)
		}
		check.True(t, err == nil, "an export of spans cannot be read: %v", err)
	}))
	t.Cleanup(server.Close)
	c.url = server.URL
	return c
}

func (c *traces) has(text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Contains(c.got.Bytes(), []byte(text))
}
