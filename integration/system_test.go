package integration_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
	"github.com/dlq-manager/dlq-manager/pkg/rest/openapi/openapitest"
)

// systems numbers the systems of this process, for names that do not clash.
var systems atomic.Int64

// system is one installation: a database, topics under a prefix of its own, a
// configuration file, and the programs that run on them.
type system struct {
	t       *testing.T
	prefix  string // of topics, and the consumer group
	db      *sqlx.DB
	brokers []string
	config  string
	kafka   *cluster
}

func newSystem(t *testing.T) *system {
	t.Helper()
	s := &system{
		t:       t,
		prefix:  fmt.Sprintf("e2e%d-%d", os.Getpid(), systems.Add(1)),
		brokers: stacktest.Kafka(t),
	}
	database := postgrestest.Empty(t)
	s.config = s.writeConfig(database)
	db, err := sqlx.Connect("postgres", database)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() { _ = db.Close() })
	s.db = db
	s.kafka = newCluster(t, s.brokers)
	s.must("api", "migrate", "up")
	return s
}

func (s *system) writeConfig(database string) string {
	s.t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		s.t.Fatal(err)
	}
	password, _ := u.User.Password()
	text := fmt.Sprintf(`
app: {environment: dev}
log: {level: info, format: json}
server: {host: 127.0.0.1, startup_timeout: 30s}
database: {host: %q, port: %s, name: %q, user: %q, password: %q}
kafka: {brokers: [%q], consumer_group: %q, dlq_topic_pattern: "%s-*.dlq.v1"}
ingest: {discovery_interval: 1s, session_timeout: 2s}
`, u.Hostname(), u.Port(), strings.TrimPrefix(u.Path, "/"), u.User.Username(), password,
		s.brokers[0], s.prefix, s.prefix)
	path := filepath.Join(s.t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// topic is a topic of this system: "orders.dlq.v1" under the system's prefix.
func (s *system) topic(name string) string { return s.prefix + "-" + name }

// must runs a program to its end, which must be a good one.
func (s *system) must(name string, args ...string) string {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), filepath.Join(binaries, name), append([]string{"--config", s.config}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// process is a program that serves.
type process struct {
	t    *testing.T
	name string
	cmd  *exec.Cmd
	url  string
	log  string
	done chan struct{}
}

// start runs a program on a free port. It is killed at the end of the test if it
// is still there, and its log is shown when the test failed.
func (s *system) start(name string, environ ...string) *process {
	s.t.Helper()
	port := freePort(s.t)
	p := &process{
		t: s.t, name: name, url: fmt.Sprintf("http://127.0.0.1:%d", port), done: make(chan struct{}),
		log: filepath.Join(s.t.TempDir(), fmt.Sprintf("%s-%d.log", name, port)),
	}
	file, err := os.Create(p.log)
	if err != nil {
		s.t.Fatal(err)
	}
	p.cmd = exec.Command(filepath.Join(binaries, name), "--config", s.config)
	p.cmd.Env = append(append(os.Environ(), fmt.Sprintf("DLQ_SERVER_PORT=%d", port)), environ...)
	p.cmd.Stdout, p.cmd.Stderr = file, file
	if err := p.cmd.Start(); err != nil {
		s.t.Fatalf("start %s: %v", name, err)
	}
	go func() {
		_ = p.cmd.Wait()
		_ = file.Close()
		close(p.done)
	}()
	s.t.Cleanup(func() {
		p.kill()
		if s.t.Failed() {
			s.t.Logf("log of %s:\n%s", name, tail(p.log))
		}
	})
	return p
}

func (s *system) startReady(name string, environ ...string) *process {
	s.t.Helper()
	p := s.start(name, environ...)
	p.waitReady()
	return p
}

func (p *process) waitReady() {
	p.t.Helper()
	eventually(p.t, time.Minute, p.name+" is ready", func() bool {
		select {
		case <-p.done:
			p.t.Fatalf("%s ended instead of becoming ready:\n%s", p.name, tail(p.log))
		default:
		}
		status, _ := p.try(http.MethodGet, "/readyz", nil)
		return status == http.StatusOK
	})
}

// kill is SIGKILL: no goodbye to anybody.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// stop is SIGTERM; the program must end well within its 25 seconds.
func (p *process) stop() {
	p.t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(25 * time.Second):
		p.t.Fatalf("%s did not stop within 25 s:\n%s", p.name, tail(p.log))
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		p.t.Errorf("%s ended with %d after SIGTERM, want 0:\n%s", p.name, code, tail(p.log))
	}
}

// try sends one request; status 0 means that there was no answer.
func (p *process) try(method, path string, body []byte, header ...string) (status int, answer []byte) {
	req, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, bytes.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil
	}
	defer func() { _ = res.Body.Close() }()
	answer, err = io.ReadAll(res.Body)
	if err != nil {
		return 0, nil
	}
	if err := openapitest.Check(openapitest.Exchange{
		Method: method, Path: path, Header: req.Header, Body: body,
		Status: res.StatusCode, AnswerHeader: res.Header, Answer: answer,
	}); err != nil && p.name == "api" {
		p.t.Errorf("the document and the program differ: %v", err)
	}
	return res.StatusCode, answer
}

// call sends a request that must be answered with want, and decodes the answer
// into out unless that is nil.
func (p *process) call(method, path string, want int, out any) []byte {
	p.t.Helper()
	status, answer := p.try(method, path, nil)
	if status != want {
		p.t.Fatalf("%s %s = %d %s, want %d", method, path, status, answer, want)
	}
	if out != nil {
		if err := json.Unmarshal(answer, out); err != nil {
			p.t.Fatalf("%s %s: answer is not JSON: %v\n%.300s", method, path, err, answer)
		}
	}
	return answer
}

// eventually waits for a condition, which is asked often and must come true
// within limit.
func eventually(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("waited %s in vain until %s", limit, what)
		case <-ticker.C:
		}
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

func tail(path string) string {
	text, _ := os.ReadFile(path)
	if len(text) > 6000 {
		text = text[len(text)-6000:]
	}
	return string(text)
}
