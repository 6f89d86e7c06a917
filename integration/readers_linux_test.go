package integration_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

const apiMemory = 400 << 20

// fromAddress returns an HTTP client that connects from this IP address. Without authentication, the API takes each
// address for a separate client, for example in its limits.
func fromAddress(t *testing.T, address string) *http.Client {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}, Timeout: 10 * time.Second}
	client := &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext}, Timeout: time.Minute}
	t.Cleanup(client.CloseIdleConnections)
	return client
}

func statusOf(client *http.Client, url string) int {
	res, err := client.Get(url)
	if err != nil {
		return 0
	}
	defer func() { _ = res.Body.Close() }()
	return res.StatusCode
}

// silent opens a connection, sends a request for path, and never reads the answer.
func (p *process) silent(path string) {
	p.t.Helper()
	host := strings.TrimPrefix(p.url, "http://")
	c, err := net.Dial("tcp", host)
	check.NoError(p.t, err)
	p.t.Cleanup(func() { _ = c.Close() })
	_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, host); err != nil {
		p.t.Fatal(err)
	}
}

// TestReadersThatReadNothing: some clients request the largest pages and exports, and never read the answers. They
// neither exhaust the API's memory nor keep other clients from getting answers. Of a message with millions of headers,
// an answer contains only the first ones.
func TestReadersThatReadNothing(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.mustInsert(`INSERT INTO dlq.dlq_messages (original_topic, error_message, status, retry_count, payload)
		SELECT 'large', 'failed', 'PENDING', 0, to_jsonb(repeat(md5(n::text), 600)) FROM generate_series(1, 1000) n`)
	many := binary.AppendUvarint(nil, 4_000_000)
	id := s.insert("many", `{}`, "PENDING", 0)
	s.mustInsert(`UPDATE dlq.dlq_messages SET headers = $1 WHERE id = $2`, append(many, make([]byte, 8_000_000)...), id)

	api := s.start("api", memoryLimit(apiMemory))
	apiWithin := api.confine(apiMemory)
	api.waitReady()
	other := fromAddress(t, "127.0.0.2")
	var list struct {
		Messages []struct{ ID string }
	}
	api.call(http.MethodGet, "/api/v1/messages?topic=large&limit=1000", 200, &list)
	if len(list.Messages) != 1000 {
		t.Fatalf("%d messages in the page, want 1000", len(list.Messages))
	}
	for range pick(3, 20) {
		var m struct {
			Headers []any
			Omitted string `json:"headers_omitted"`
		}
		answer := api.call(http.MethodGet, "/api/v1/dlq/messages/"+id, 200, &m)
		if len(m.Headers) == 0 || len(m.Headers) > 10_000 || m.Omitted != "too_large" || len(answer) > 8<<20 {
			t.Fatalf("%d headers of 4,000,000 in %d bytes, omitted %q, want the first ones", len(m.Headers), len(answer), m.Omitted)
		}
	}
	for n := range 54 {
		api.silent("/api/v1/messages?topic=large&limit=1000")
		if n%9 == 0 {
			api.silent("/api/v1/export?topic=large")
		}
		for _, path := range []string{"/api/v1/messages?topic=large&limit=50", "/api/v1/dlq/messages/" + id, "/readyz"} {
			if got := statusOf(other, api.url+path); got != http.StatusOK {
				t.Fatalf("with %d connections that read nothing another client gets %d for %s, want 200", n+1, got, path)
			}
		}
	}
	if got := statusOf(other, api.url+"/api/v1/export?topic=large&limit=10"); got != http.StatusOK {
		t.Errorf("another client's export gets %d, want 200", got)
	}
	eventuallyWithin(t, 2*time.Minute, "clients that read nothing are disconnected", func() bool {
		return strings.Contains(api.logged(), "took its answer too slowly")
	})
	apiWithin()
}

func (s *system) mustInsert(query string, args ...any) {
	s.t.Helper()
	if _, err := s.db.Exec(query, args...); err != nil {
		s.t.Fatal(err)
	}
}
