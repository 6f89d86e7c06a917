package integration_test

import (
	"bytes"
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

	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/integration/programs"
	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/pkg/migrate"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// TestUpgradeUnderLoad: the programs of the commit before the newest migration
// work, the migration runs under them, those of now come beside them, and then the
// old ones end. Nobody who asks meanwhile is refused, and no record is lost or sent
// twice.
func TestUpgradeUnderLoad(t *testing.T) {
	t.Parallel()
	before, version := releaseBefore(t)
	s := unmigrated(t)
	old := filepath.Join(before, "api")
	s.runs(old, "migrate", "up")
	s.wantSchema(version)
	l := newLetters(s)
	oldAPI, oldIngester := s.startFrom(before, "api"), s.startFrom(before, "ingester")
	oldAPI.waitReady()
	oldIngester.waitReady()
	l.produce(500, nil)
	l.waitStored()

	asking := l.ask(oldAPI)
	migrated := make(chan struct{})
	go func() {
		defer close(migrated)
		s.runs(filepath.Join(binaries, "api"), "migrate", "up")
	}()
	l.produce(1000, nil)
	<-migrated
	s.wantSchema(migrate.Latest())
	l.produce(500, nil)
	l.waitStored() // by the old ingester, on the new schema

	api, ingester := l.startReady("api", impatient()...), l.startReady("ingester")
	asking.at(api)
	l.produce(1000, nil) // by both
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

// releaseBefore builds the programs of the last commit whose schema is older than
// the one of now, and returns where they are and its version.
func releaseBefore(t *testing.T) (dir string, version uint) {
	t.Helper()
	for _, commit := range strings.Fields(git(t, "log", "--format=%H", "-n", "100", "--", "migrations", "go.mod")) {
		if version = schemaOf(t, commit); version == migrate.Latest() {
			continue
		}
		dir = t.TempDir()
		source := filepath.Join(dir, "src")
		archive := filepath.Join(dir, "src.tar")
		if err := os.WriteFile(archive, []byte(git(t, "archive", commit)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(source, 0o755); err != nil {
			t.Fatal(err)
		}
		command(t, source, "tar", "-xf", archive)
		command(t, source, "go", "build", "-o", dir+string(filepath.Separator), "./cmd/api", "./cmd/ingester")
		t.Logf("the release before is %s with schema %d", commit, version)
		return dir, version
	}
	t.Fatalf("no commit that is here has an older schema than %d, so there is nothing to upgrade from: "+
		"a checkout of the last commits alone needs `git fetch --unshallow`", migrate.Latest())
	return "", 0
}

// schemaOf is the newest migration of a commit.
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

// unmigrated is a system whose database is empty.
func unmigrated(t *testing.T) *system {
	t.Helper()
	s := &system{t: t, prefix: fmt.Sprintf("up%d-%d", os.Getpid(), systems.Add(1)), brokers: stacktest.Kafka(t)}
	database := postgrestest.Empty(t)
	s.config = s.writeConfig(database)
	db, err := sqlx.Connect("postgres", database)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() { _ = db.Close() })
	s.db = db
	s.kafka = newCluster(t, s.brokers)
	return s
}

// runs runs a program to its end. It may be called beside the test.
func (s *system) runs(path string, args ...string) {
	out, err := exec.CommandContext(s.t.Context(), path, append([]string{"--config", s.config}, args...)...).CombinedOutput()
	if err != nil {
		s.t.Errorf("%s %v: %v\n%s", path, args, err, out)
	}
}

func (s *system) wantSchema(want uint) {
	s.t.Helper()
	got, dirty, err := migrate.Version(s.t.Context(), s.db.DB)
	if err != nil || dirty || got != want {
		s.t.Fatalf("the schema is at %d (dirty: %t, %v), want %d", got, dirty, err, want)
	}
}

// startFrom is start for programs of another folder.
func (s *system) startFrom(dir, name string) *process {
	s.t.Helper()
	started, err := programs.Start(programs.Program{
		Path: filepath.Join(dir, name), Config: s.config, Env: impatient(), Dir: s.t.TempDir(),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	// Not by the name "api": the document of now is not that of then.
	p := &process{t: s.t, name: "old " + name, program: started, url: started.URL, log: started.Log, done: started.Done()}
	s.t.Cleanup(func() {
		p.kill()
		if s.t.Failed() {
			s.t.Logf("log of %s:\n%s", p.name, programs.Tail(p.log))
		}
	})
	return p
}

// load asks the APIs that there are, all the time, for lists, counts, searches and
// single messages, and complains of every answer that is not one.
type load struct {
	l        *letters
	mu       sync.RWMutex // held for reading while an API of them is asked
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

// notAt sends no more requests to a program, and returns when those to it are
// answered, as a load balancer would before it ends.
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

// end stops asking; a load that hardly asked has proven nothing.
func (a *load) end() {
	a.l.t.Helper()
	close(a.stop)
	a.done.Wait()
	a.l.t.Logf("%d requests were answered", a.answered.Load())
	if a.answered.Load() < 200 {
		a.l.t.Errorf("%d requests were answered, want some hundreds", a.answered.Load())
	}
}
