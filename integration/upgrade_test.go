package integration_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/integration/programs"
	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/migrate"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// TestUpgradeUnderLoad: the programs of the old version run under load. Then the schema is migrated, the programs of
// the new version start, and the old ones stop. Meanwhile no request is refused, and no record is lost or sent twice.
// The function upgrade says which versions these are.
func TestUpgradeUnderLoad(t *testing.T) {
	t.Parallel()
	before, after := upgrade(t)
	s := newSystemOn(t, stacktest.Kafka(t), postgrestest.Empty(t))
	s.runs(filepath.Join(before.dir, "api"), "migrate", "up")
	s.wantSchema(before.schema)
	l := newLetters(s)
	oldAPI, oldIngester := s.startFrom(before.dir, "api"), s.startFrom(before.dir, "ingester")
	oldAPI.waitReady()
	oldIngester.waitReady()
	l.produce(500, nil)
	l.waitStored()

	asking := l.ask(oldAPI)
	migrated := make(chan struct{})
	go func() {
		defer close(migrated)
		s.runs(filepath.Join(after.dir, "api"), "migrate", "up")
	}()
	l.produce(1000, nil)
	<-migrated
	s.wantSchema(after.schema)
	l.produce(500, nil)
	l.waitStored() // the old ingester must be able to store these records in the new schema

	api, ingester := s.startAt(filepath.Join(after.dir, "api"), impatient()...), s.startAt(filepath.Join(after.dir, "ingester"))
	api.waitReady()
	ingester.waitReady()
	asking.at(api)
	l.produce(1000, nil) // the old and the new ingester share the work
	id := l.begin(oldAPI)
	oldIngester.stop()
	asking.notAt(oldAPI)
	oldAPI.stop()
	l.finished(api, id)
	l.produce(500, nil)
	l.waitStored()
	asking.end()
	l.retryTheRest(api)
	l.wantStoredOnce()
	l.wantResolvedOnce()
	api.wantRunning()
	ingester.wantRunning()
}

// version holds the programs of one version, and the schema version for which they were built.
type version struct {
	dir    string
	schema uint
}

// upgrade returns the old and the new programs of the test. If the newest release has an older schema, the old
// programs are the programs of that release, and the new programs are the current programs. Otherwise the old
// programs are the current ones, and the new ones have two made-up migration steps.
func upgrade(t *testing.T) (before, after version) {
	t.Helper()
	now := version{binaries, migrate.Latest()}
	// The command fails in an unpacked source archive, which has no tags.
	tags, _ := exec.CommandContext(t.Context(), "git", "-C", "..", "tag", "--list", "v*", "--sort=-version:refname").Output()
	tag, _, _ := strings.Cut(string(tags), "\n")
	if tag == "" || schemaOf(t, tag) == now.schema {
		return now, version{withMadeUpSteps(t), now.schema + 2}
	}
	return version{released(t, tag), schemaOf(t, tag)}, now
}

// withMadeUpSteps builds the programs with two additional migration steps: one that runs in a transaction and one that
// does not. It returns the folder of these programs.
func withMadeUpSteps(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	root, err := filepath.Abs("..")
	check.NoError(t, err)
	overlay := map[string]map[string]string{"Replace": {}}
	for i, step := range []struct{ up, down string }{{
		`
		SET LOCAL lock_timeout = '5s';
		ALTER TABLE dlq.dlq_messages ADD COLUMN made_up TEXT NOT NULL DEFAULT 'made up';
		CREATE TABLE dlq.made_up (message_id UUID PRIMARY KEY);`, `
		DROP TABLE dlq.made_up;
		ALTER TABLE dlq.dlq_messages DROP COLUMN made_up;`,
	}, {
		"-- migrate:no-transaction\nCREATE INDEX CONCURRENTLY idx_dlq_messages_made_up ON dlq.dlq_messages (made_up, created_at, id)",
		"-- migrate:no-transaction\nDROP INDEX CONCURRENTLY dlq.idx_dlq_messages_made_up",
	}} {
		for way, sql := range map[string]string{"up": step.up, "down": step.down} {
			name := fmt.Sprintf("%03d_made_up.%s.sql", int(migrate.Latest())+1+i, way)
			write(t, filepath.Join(dir, name), sql)
			overlay["Replace"][filepath.Join(root, "migrations", name)] = filepath.Join(dir, name)
		}
	}
	raw, err := json.Marshal(overlay)
	check.NoError(t, err)
	write(t, filepath.Join(dir, "overlay.json"), string(raw))
	command(t, root, "go", "build", "-ldflags=-w", "-overlay", filepath.Join(dir, "overlay.json"), "-o", dir+string(filepath.Separator), "./cmd/api", "./cmd/ingester")
	return dir
}

// released builds the programs of a release, which a git tag names, and returns the folder of these programs.
func released(t *testing.T, tag string) string {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join(dir, "src")
	write(t, filepath.Join(dir, "src.tar"), git(t, "archive", tag))
	check.NoError(t, os.Mkdir(source, 0o755))
	command(t, source, "tar", "-xf", filepath.Join(dir, "src.tar"))
	command(t, source, "go", "build", "-ldflags=-w", "-o", dir+string(filepath.Separator), "./cmd/api", "./cmd/ingester")
	return dir
}

func write(t *testing.T, path, content string) {
	t.Helper()
	check.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}

// schemaOf returns the number of the newest migration that a commit contains.
func schemaOf(t *testing.T, commit string) (newest uint) {
	t.Helper()
	for _, name := range strings.Fields(git(t, "ls-tree", "--name-only", commit, "migrations/")) {
		number, _, _ := strings.Cut(filepath.Base(name), "_")
		if n, err := strconv.ParseUint(number, 10, 32); err == nil {
			newest = max(newest, uint(n))
		}
	}
	return newest
}

func git(t *testing.T, args ...string) string {
	t.Helper()
	return command(t, "..", "git", args...)
}

func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, errs.String())
	}
	return string(out)
}

// runs runs a program until it exits, and fails the test unless the exit code is 0. Any goroutine may call it.
func (s *system) runs(path string, args ...string) {
	out, err := exec.CommandContext(s.t.Context(), path, append([]string{"--config", s.config}, args...)...).CombinedOutput()
	check.True(s.t, err == nil, "%s %v: %v\n%s", path, args, err, out)
}

func (s *system) wantSchema(want uint) {
	s.t.Helper()
	got, dirty, err := migrate.Version(s.t.Context(), s.db.DB)
	if err != nil || dirty || got != want {
		s.t.Fatalf("the schema is at %d (dirty: %t, %v), want %d", got, dirty, err, want)
	}
}

// startFrom starts a program of the folder dir, such as the program of the old version.
func (s *system) startFrom(dir, name string) *process {
	s.t.Helper()
	started, err := programs.Start(programs.Program{
		Path: filepath.Join(dir, name), Config: s.config, Env: impatient(), Dir: s.t.TempDir(),
	})
	check.NoError(s.t, err)
	// The name must not be "api": the answers of a process with this name are compared with the current API document,
	// which does not describe the old program.
	p := &process{t: s.t, name: "old " + name, program: started, url: started.URL, log: started.Log, done: started.Done()}
	s.t.Cleanup(func() {
		p.kill()
		if s.t.Failed() {
			s.t.Logf("log of %s:\n%s", p.name, programs.Tail(p.log))
		}
	})
	return p
}

// load continually requests lists, counts, searches and single messages from the running APIs, and fails the test for
// every status that is not 200.
type load struct {
	l        *letters
	mu       sync.RWMutex // each request holds it for reading; notAt locks it, to wait for pending requests
	apis     []*process
	answered atomic.Int64
	stop     chan struct{}
	done     sync.WaitGroup
}

func (l *letters) ask(first *process) *load {
	a := &load{l: l, apis: []*process{first}, stop: make(chan struct{})}
	paths := []string{
		"/api/v1/dlq/" + l.source, "/api/v1/messages?status=PENDING&count=exact", "/api/v1/messages?q=stock",
		"/api/v1/topics", "/api/v1/groups", "/api/v1/audit", "/api/v1/dlq/messages/" + l.some("true"),
	}
	for _, path := range paths {
		a.done.Go(func() {
			for {
				select {
				case <-a.stop:
					return
				case <-time.After(20 * time.Millisecond):
					a.once(path)
				}
			}
		})
	}
	return a
}

func (a *load) once(path string) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	for _, p := range a.apis {
		if status, body := p.try(http.MethodGet, path, nil); status != http.StatusOK {
			a.l.t.Errorf("%s: GET %s = %d %.300s, want 200 throughout", p.name, path, status, body)
		}
		a.answered.Add(1)
	}
}

func (a *load) at(p *process) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.apis = append(a.apis, p)
}

// notAt stops the requests to a program, as a load balancer does before the program stops, and returns when the
// pending requests are answered.
func (a *load) notAt(gone *process) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, p := range a.apis {
		if p == gone {
			a.apis = append(a.apis[:i:i], a.apis[i+1:]...)
			return
		}
	}
}

// end stops the requests. It fails the test when too few requests were sent, because then the test proves nothing.
func (a *load) end() {
	a.l.t.Helper()
	close(a.stop)
	a.done.Wait()
	a.l.t.Logf("%d requests were answered", a.answered.Load())
	if a.answered.Load() < 200 {
		a.l.t.Errorf("%d requests were answered, want some hundreds", a.answered.Load())
	}
}
