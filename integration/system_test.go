package integration_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/integration/programs"
	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
	"github.com/dlq-manager/dlq-manager/pkg/rest/openapi/openapitest"
)

// systems counts the systems of this process, so that each of them gets unique names.
var systems atomic.Int64

// system is one installation: a database, topics with their own prefix, a configuration file, and
// the programs that use them.
type system struct {
	t       *testing.T
	prefix  string // prefix of topics, and name of the consumer group
	db      *sqlx.DB
	brokers []string
	config  string
	kafka   *cluster
	logs    []string // paths of the logs of all programs that this system has started
}

func newSystem(t *testing.T) *system {
	t.Helper()
	return newSystemOn(t, stacktest.Kafka(t), postgrestest.URL(t))
}

// newSystemOn returns a system on the given servers. It does not migrate the database.
func newSystemOn(t *testing.T, brokers []string, database string) *system {
	t.Helper()
	s := &system{t: t, brokers: brokers, prefix: fmt.Sprintf("e2e%d-%d", os.Getpid(), systems.Add(1))}
	s.config = s.writeConfig(database)
	db, err := sqlx.Connect("postgres", database)
	check.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	s.db = db
	s.kafka = newCluster(t, s.brokers)
	return s
}

func (s *system) writeConfig(database string) string {
	s.t.Helper()
	cfg := programs.Config{
		Database: database, Broker: s.brokers[0], Group: s.prefix, Pattern: s.prefix + "-*.dlq.v1",
	}
	path := filepath.Join(s.t.TempDir(), "config.yaml")
	check.NoError(s.t, cfg.Write(path))
	return path
}

// topic returns the name of a topic with the system's prefix.
func (s *system) topic(name string) string { return s.prefix + "-" + name }

// must runs a program until it exits, and returns its output. The test fails unless the exit code is 0.
func (s *system) must(name string, args ...string) string {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), filepath.Join(binaries, name), append([]string{"--config", s.config}, args...)...)
	out, err := cmd.CombinedOutput()
	check.Require(s.t, err == nil, "%s %v: %v\n%s", name, args, err, out)
	return string(out)
}

// process is a running server program.
type process struct {
	t       *testing.T
	name    string
	program *programs.Process
	url     string
	log     string
	done    <-chan struct{}
}

// start runs a program on a free port. The program is killed at the end of the test if it still
// runs, and its log is shown after a failure.
func (s *system) start(name string, environ ...string) *process {
	s.t.Helper()
	return s.startAt(filepath.Join(binaries, name), environ...)
}

// startAt starts the program at the given path, as the method start does with the built programs.
func (s *system) startAt(path string, environ ...string) *process {
	s.t.Helper()
	return s.startIn(s.t.TempDir(), path, environ...)
}

// startIn starts a program as startAt does, with the log in the given folder.
func (s *system) startIn(dir, path string, environ ...string) *process {
	s.t.Helper()
	started, err := programs.Start(programs.Program{Path: path, Config: s.config, Env: environ, Dir: dir})
	check.NoError(s.t, err)
	s.logs = append(s.logs, started.Log)
	name := filepath.Base(path)
	p := &process{t: s.t, name: name, program: started, url: started.URL, log: started.Log, done: started.Done()}
	s.t.Cleanup(func() {
		p.kill()
		if s.t.Failed() {
			s.t.Logf("log of %s:\n%s", name, programs.Tail(p.log))
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
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	check.NoError(p.t, p.program.Ready(ctx))
}

// kill sends SIGKILL.
func (p *process) kill() { p.program.Kill() }

// stop sends SIGTERM; the program must exit with code 0 within 25 seconds.
func (p *process) stop() {
	p.t.Helper()
	p.program.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(25 * time.Second):
		p.t.Fatalf("%s did not stop within 25 s:\n%s", p.name, programs.Tail(p.log))
	}
	if err := p.program.Err(); err != nil {
		p.t.Errorf("%s ended after SIGTERM with %v, want exit code 0:\n%s", p.name, err, programs.Tail(p.log))
	}
}

// try sends one request; status 0 means that there was no answer. The test fails if the API's answer does not fit the
// OpenAPI document.
func (p *process) try(method, path string, body []byte, header ...string) (status int, answer []byte) {
	req, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, bytes.NewReader(body))
	check.NoError(p.t, err)
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
		p.t.Errorf("the OpenAPI document and the program differ: %v", err)
	}
	return res.StatusCode, answer
}

// call sends a request whose answer must have status want, and decodes the answer into out unless out is nil.
func (p *process) call(method, path string, want int, out any) []byte {
	p.t.Helper()
	status, answer := p.try(method, path, nil)
	check.Require(p.t, status == want, "%s %s = %d %s, want %d", method, path, status, answer, want)
	if out != nil {
		if err := json.Unmarshal(answer, out); err != nil {
			p.t.Fatalf("%s %s: answer is not JSON: %v\n%.300s", method, path, err, answer)
		}
	}
	return answer
}

// eventually repeats ok until it is true, and ends the test if that takes longer than 5 minutes, which is enough for
// busy machines. The pauses grow from 20 to 100 ms, because many of these questions cost the programs a connection to
// Kafka or a statement.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	eventuallyWithin(t, 5*time.Minute, what, ok)
}

// promise is a time within which the programs do something on a machine that is not busy.
type promise time.Duration

// Promises of docs/failure-modes.md, docs/security.md and of the tests that use them.
const (
	newTopicIsRead   = promise(30 * time.Second) // until the records of a new topic are listed
	othersFlow       = promise(5 * time.Second)  // until a record is stored while another topic has hostile ones, or an ingester dies
	readinessFollows = promise(30 * time.Second) // until a program is unready without its servers, and ready again with them
	claimIsSettled   = promise(35 * time.Second) // until the message of a dead process is no longer RETRYING
	recovered        = promise(time.Minute)      // until all goes on after the last of many faults
	masksAreUsed     = promise(time.Minute)      // until the search index uses new masks
	signedOut        = promise(5 * time.Second)  // until every replica refuses a session that was ended at another
)

// limit returns how long a test waits for the promise, since tests run on busy machines.
func (p promise) limit() time.Duration { return 2 * time.Duration(p) }

// eventuallyAs does the same as eventually, and fails when the promise is not kept.
func eventuallyAs(t *testing.T, p promise, what string, ok func() bool) {
	t.Helper()
	eventuallyWithin(t, p.limit(), what, ok)
}

// eventuallyWithin does the same as eventually with another limit, for work that takes longer.
func eventuallyWithin(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for began := time.Now(); !ok(); {
		select {
		case <-ctx.Done():
			t.Fatalf("after %s still not true: %s", limit, what)
		case <-time.After(min(max(time.Since(began)/10, 20*time.Millisecond), 100*time.Millisecond)):
		}
	}
}
