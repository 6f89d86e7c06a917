package integration_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/integration/stack"
	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// TestFaultPoolExhausted: a lock blocks the queries on the API's two database connections while fifty clients send
// requests. The API answers all of them in time, and the ingester still stores records. Afterwards every request
// succeeds.
func TestFaultPoolExhausted(t *testing.T) {
	t.Parallel()
	const clients = 50
	l := newLetters(newSystem(t))
	api := l.startReady("api", "DLQ_DATABASE_MAX_OPEN_CONNS=2", "DLQ_DATABASE_MAX_IDLE_CONNS=2",
		"DLQ_SERVER_MAX_EXPORTS=1", "DLQ_SERVER_REQUEST_TIMEOUT=2s")
	ingester := l.startReady("ingester")
	for range pick(1, 3) {
		tx, err := l.db.Beginx()
		check.NoError(t, err)
		if _, err := tx.Exec(`LOCK TABLE dlq.redrives IN ACCESS EXCLUSIVE MODE`); err != nil {
			t.Fatal(err)
		}
		stood := api.metric("go_sql_wait_count_total")
		waiting := make(chan []asked, 1)
		go func() { waiting <- api.crowd(clients, "/api/v1/redrives", 30*time.Second) }()
		l.produce(500, nil)
		l.waitStored()
		wantSentAway(t, <-waiting)
		for _, a := range api.crowd(clients, "/api/v1/dlq/"+l.source, 30*time.Second) {
			if a.hung || a.status != 200 && a.status != 503 {
				t.Fatalf("of %d clients that request unlocked data one got %+v, want 200 or 503", clients, a)
			}
		}
		api.wantRunning()
		if got := api.metric("go_sql_wait_count_total") - stood; got < clients {
			t.Errorf("%v requests waited for a connection, want at least the %d", got, clients)
		}
		check.NoError(t, tx.Rollback())
		eventually(t, "the API serves again", func() bool { return api.status("/api/v1/redrives") == 200 })
		wantServed(t, api.crowd(clients, "/api/v1/redrives", 30*time.Second))
	}
	l.wantStoredOnce()
	l.retryTheRest(api)
	l.wantResolvedOnce()
	ingester.wantRunning()
}

// TestFaultServerFull: other clients hold all connections that PostgreSQL allows. The API refuses requests, and the
// ingester waits. When connections are free again, both programs continue by themselves.
func TestFaultServerFull(t *testing.T) {
	t.Parallel()
	const allowed = 25
	own := ownStack(t, stack.Options{Postgres: true, PostgresSettings: map[string]string{"max_connections": fmt.Sprint(allowed)}})
	l := newLetters(newSystemOn(t, stacktest.Kafka(t), makeDatabase(t, own)))
	l.db.SetMaxOpenConns(1)
	few := "DLQ_DATABASE_MAX_OPEN_CONNS=8" // so few that PostgreSQL accepts all connections of both programs
	api, ingester := l.startReady("api", few), l.startReady("ingester", few)
	l.produce(200, nil)
	l.waitStored()
	for range pick(1, 3) {
		log := ingester.listen()
		release := l.holdConnections(own.DatabaseURL(), allowed-1)
		before := len(l.sent)
		l.produce(500, nil)
		wantSentAway(t, api.crowd(30, "/api/v1/dlq/"+l.source, 30*time.Second))
		log.says("the store does not take records; ingest waits", "too many clients")
		l.wantOffsetsStored()
		if got := l.count("true"); got != before {
			t.Errorf("%d messages are stored without a connection, want the %d from before", got, before)
		}
		eventuallyAs(t, readinessFollows, "neither is ready", func() bool {
			return api.status("/readyz") == 503 && ingester.status("/readyz") == 503
		})
		api.wantRunning()
		ingester.wantRunning()
		release()
		l.waitStored()
		eventuallyAs(t, readinessFollows, "both are ready", func() bool {
			return api.status("/readyz") == 200 && ingester.status("/readyz") == 200
		})
		wantServed(t, api.crowd(30, "/api/v1/dlq/"+l.source, 30*time.Second))
	}
	l.kafka.waitNoLag(l.prefix, l.source)
	l.wantStoredOnce()
	l.retryTheRest(api)
	l.wantResolvedOnce()
}

// holdConnections opens n connections to a server, so that only the test's own connection is left. To make room, it
// terminates connections of the programs.
func (l *letters) holdConnections(url string, n int) (release func()) {
	l.t.Helper()
	held := make([]*sqlx.DB, 0, n)
	release = func() {
		for _, db := range held {
			_ = db.Close()
		}
		held = nil
	}
	l.t.Cleanup(release)
	eventually(l.t, fmt.Sprintf("%d connections are taken", n), func() bool {
		for len(held) < n {
			db, err := sqlx.Connect("postgres", url)
			if err != nil {
				_, err = l.db.Exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
					WHERE datname = current_database() AND pid <> pg_backend_pid()`)
				check.Require(l.t, err == nil, "end the programs' connections: %v", err)
				return false
			}
			held = append(held, db)
		}
		return true
	})
	return release
}

// descriptors is the file descriptor limit of the programs that startStarved starts.
const descriptors = 48

// startStarved starts a program with few file descriptors, and waits until it is ready.
func (s *system) startStarved(name string, environ ...string) *process {
	s.t.Helper()
	script := filepath.Join(s.t.TempDir(), name)
	text := fmt.Sprintf("#!/bin/sh\nulimit -n %d && exec '%s' \"$@\"\n", descriptors, filepath.Join(binaries, name))
	check.NoError(s.t, os.WriteFile(script, []byte(text), 0o700))
	p := s.startAt(script, environ...)
	p.waitReady()
	return p
}

// TestFaultDescriptorsRunOut: clients hold so many connections to the API and the ingester that neither can open a file
// or connection. Both programs go on with their open files and connections, lose nothing, and recover when the clients
// are gone.
func TestFaultDescriptorsRunOut(t *testing.T) {
	t.Parallel()
	l := newLetters(newSystem(t))
	// Connections to the database are replaced continually, so that new ones are needed while no
	// descriptor is free.
	short := []string{"DLQ_DATABASE_CONN_MAX_LIFETIME=1s", "DLQ_DATABASE_MAX_OPEN_CONNS=8", "DLQ_SERVER_READ_HEADER_TIMEOUT=1m"}
	api, ingester := l.startStarved("api", impatient(short...)...), l.startStarved("ingester", short...)
	l.produce(500, nil)
	l.waitStored()
	for range pick(1, 4) {
		inside := api.keptOpen()
		log, logOfAPI := ingester.listen(), api.listen()
		release := hold(t, 4*descriptors, api, ingester)
		log.says("Accept error", "too many open files")
		logOfAPI.says("Accept error", "too many open files")
		eventually(t, "a client with an open connection gets an answer that asks it to try again", func() bool {
			a := inside("/api/v1/dlq/" + l.source)
			if a.status != 200 && a.status != 503 {
				t.Fatalf("a client with an open connection got %+v, want 200 or 503", a)
			}
			return a.status == 503 && a.retryAfter != ""
		})
		for _, a := range api.crowd(10, "/api/v1/dlq/"+l.source, time.Second) {
			if a.status != 0 && a.status != 503 {
				t.Errorf("a new client got %+v, want no answer or 503", a)
			}
		}
		l.produceUntil(func() bool {
			return log.said("the store does not take records; ingest waits", "too many open files") > 0
		})
		l.wantOffsetsStored()
		release()
		eventuallyAs(t, readinessFollows, "both are ready", func() bool {
			return api.status("/readyz") == 200 && ingester.status("/readyz") == 200
		})
		l.waitStored()
		wantServed(t, api.crowd(descriptors/6, "/api/v1/dlq/"+l.source, 30*time.Second))
	}
	l.kafka.waitNoLag(l.prefix, l.source)
	l.wantStoredOnce()
	l.retryTheRest(api)
	l.wantResolvedOnce()
	api.wantRunning()
	ingester.wantRunning()
}

// produceUntil produces some records each time the ingester has been idle for longer than the lifetime of its database
// connections, so that the ingester needs a new connection.
func (l *letters) produceUntil(enough func() bool) {
	l.t.Helper()
	last := time.Now()
	eventually(l.t, "the ingester cannot store", func() bool {
		if l.count("true") >= len(l.sent) && time.Since(last) > 2*time.Second {
			l.produce(20, nil)
			last = time.Now()
		}
		return enough()
	})
}

// hold opens n connections to each of the programs, and sends no request on them.
func hold(t *testing.T, n int, programs ...*process) (release func()) {
	t.Helper()
	var held []net.Conn
	release = func() {
		for _, c := range held {
			_ = c.Close()
		}
		held = nil
	}
	t.Cleanup(release)
	for range n {
		for _, p := range programs {
			conn, err := net.DialTimeout("tcp", strings.TrimPrefix(p.url, "http://"), 10*time.Second)
			check.Require(t, err == nil, "hold a connection to %s: %v", p.name, err)
			held = append(held, conn)
		}
	}
	return release
}

// keptOpen returns a client that keeps one connection open.
func (p *process) keptOpen() func(path string) asked {
	p.t.Helper()
	transport := &http.Transport{MaxConnsPerHost: 1}
	p.t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport, Timeout: 40 * time.Second}
	ask := func(path string) asked {
		req, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.url+path, nil)
		check.NoError(p.t, err)
		res, err := client.Do(req)
		if err != nil {
			return asked{hung: true}
		}
		_, _ = io.Copy(io.Discard, res.Body) // the client keeps the connection only after reading the whole body
		_ = res.Body.Close()
		return asked{status: res.StatusCode, retryAfter: res.Header.Get("Retry-After")}
	}
	if a := ask("/healthz"); a.status != http.StatusOK {
		p.t.Fatalf("healthz of %s = %+v, want 200", p.name, a)
	}
	return ask
}
