package cmd_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// TestSilentDatabase: PostgreSQL accepts connections and bytes, but never answers. The program must still answer
// requests and probes, and must stop on SIGTERM.
func TestSilentDatabase(t *testing.T) {
	t.Parallel()
	brokers := strings.Join(stacktest.Kafka(t), ",")
	for _, program := range []string{"api", "ingester"} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			port := freePort(t)
			group := fmt.Sprintf("silent-%s-%d", program, port)
			database := proxied(t, postgrestest.URL(t))
			config := settings(t, database.url, fmt.Sprintf("{host: 127.0.0.1, port: %d, request_timeout: 1s}", port)) +
				fmt.Sprintf("kafka: {brokers: [%s], consumer_group: %s, dlq_topic_pattern: \"%s.*\"}\n", brokers, group, group)
			p := start(t, program, []string{"DLQ_DATABASE_READ_TIMEOUT=5s"}, "--config", file(t, config))
			base := fmt.Sprintf("http://127.0.0.1:%d", port)
			p.waitForAnswer(base+"/readyz", http.StatusOK, `"ready"`)

			database.frozen.Store(true)
			if program == "api" {
				p.waitForAnswer(base+"/api/v1/dlq/orders", http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE")
			}
			p.waitForAnswer(base+"/readyz", http.StatusServiceUnavailable, `"schema":"failed"`)
			p.waitForAnswer(base+"/healthz", http.StatusOK, `{"status":"ok"}`)
			p.waitForAnswer(base+"/metrics", http.StatusOK, "go_goroutines")
			p.wantCleanEnd()
		})
	}
}

// proxy forwards connections to a server. While it is frozen, it accepts connections and bytes but returns nothing.
type proxy struct {
	url    string
	frozen atomic.Bool
	done   chan struct{}
}

func proxied(t *testing.T, at string) *proxy {
	t.Helper()
	u, err := url.Parse(at)
	check.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check.NoError(t, err)
	server := u.Host
	u.Host = listener.Addr().String()
	p := &proxy{url: u.String(), done: make(chan struct{})}
	t.Cleanup(func() { close(p.done); _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go p.join(client, server)
		}
	}()
	return p
}

func (p *proxy) join(client net.Conn, address string) {
	defer client.Close()
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	}()
	buf := make([]byte, 32<<10)
	for {
		n, err := server.Read(buf)
		if p.frozen.Load() {
			<-p.done
			return
		}
		if err != nil {
			return
		}
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
	}
}
