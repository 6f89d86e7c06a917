// Package cmd_test runs the programs as operators run them: as binaries, with flags and a configuration file. It checks
// their exit codes and ports.
package cmd_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/integration/programs"
	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/migrate"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

var names = []string{"api", "ingester", "archiver"}

func TestMain(m *testing.M) { stacktest.Main(m) }

var binaries = sync.OnceValues(programs.Build)

func binary(t *testing.T, program string) string {
	t.Helper()
	dir, err := binaries()
	check.Require(t, err == nil, "build the programs: %v", err)
	return filepath.Join(dir, program)
}

func TestFlags(t *testing.T) {
	t.Parallel()
	for _, program := range names {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			for _, flag := range []string{"--version", "--help"} {
				got := run(t, program, nil, flag)
				if got.code != 0 || got.stderr != "" || !strings.Contains(got.stdout, "dlq-manager-"+program) {
					t.Errorf("%s: got exit code %d, stdout %q, stderr %q, want 0 and its name", flag, got.code, got.stdout, got.stderr)
				}
			}
		})
	}
}

func TestStartUpErrors(t *testing.T) {
	t.Parallel()
	const whole = "database: {host: 127.0.0.1, name: n, user: u}\nkafka: {brokers: [\"127.0.0.1:1\"]}\n"
	for _, c := range []struct {
		name, config string
		programs     []string
		args         []string
		want         string
	}{
		{name: "UnknownFlag", config: whole, args: []string{"--nope"}, want: "--nope"},
		{name: "UnknownKey", config: whole + "server: {prot: 1}\n", want: "server.prot"},
		{name: "WrongType", config: whole + "server: {port: eighty}\n", want: "server.port"},
		{name: "MissingFile", args: []string{"--config", "/no/such/config.yaml"}, want: "/no/such/config.yaml"},
		{name: "BadPattern", config: "kafka: {brokers: [\"127.0.0.1:1\"], dlq_topic_pattern: \"^[\"}\n", want: "dlq_topic_pattern"},
		{name: "TwoProblems", config: "database: {host: h}\nauth: {mode: x}\n", want: "auth.mode"},
		{name: "NullDatabase", config: "database:\nkafka: {brokers: [\"127.0.0.1:1\"]}\n", want: "database: the section is empty"},
		{name: "NullKafka", config: "database: {host: h, name: n, user: u}\nkafka:\n", want: "kafka: the section is empty"},
		{name: "UnknownArgument", config: whole, args: []string{"serve"}, want: "serve"},
		{name: "UnreachableDatabase", config: unreachableDatabase + "kafka: {brokers: [\"127.0.0.1:1\"]}\n", want: "127.0.0.1:1/nowhere"},
		{name: "IngesterWithoutDatabase", config: "kafka: {brokers: [\"127.0.0.1:1\"]}\n", programs: []string{"ingester"}, want: "database"},
		{name: "IngesterWithoutKafka", config: "database: {host: h, name: n, user: u}\n", programs: []string{"ingester"}, want: "kafka"},
		{name: "ArchiverWithoutDatabase", config: "app: {name: x}\n", programs: []string{"archiver"}, want: "database"},
		{name: "APIInProductionWithoutDatabase", config: "app: {environment: production}\n", programs: []string{"api"}, want: "database"},
		{name: "UnknownAction", config: unreachableDatabase, programs: []string{"api"}, args: []string{"migrate"}, want: "migrate"},
		{name: "MigrateWithoutDatabase", config: "app: {name: x}\n", programs: []string{"api"}, args: []string{"migrate", "up"}, want: "database"},
	} {
		of := c.programs
		if of == nil {
			of = names
		}
		for _, program := range of {
			t.Run(c.name+"/"+program, func(t *testing.T) {
				t.Parallel()
				args := c.args
				if c.config != "" {
					args = append([]string{"--config", file(t, c.config)}, args...)
				}
				wantRefusal(t, run(t, program, nil, args...), program, c.want)
			})
		}
	}
}

// unreachableDatabase is a configuration with a database that exists on no server. The API listens on any free port.
const unreachableDatabase = "server: {host: 127.0.0.1, port: 0, startup_timeout: 1s}\ndatabase: {host: 127.0.0.1, port: 1, name: nowhere, user: u, password: hunter2}\n"

func TestStartUpErrorsWithADatabase(t *testing.T) {
	t.Parallel()

	for _, program := range []string{"api", "ingester"} {
		t.Run("UnreachableKafka/"+program, func(t *testing.T) {
			t.Parallel()
			config := settings(t, postgrestest.URL(t), "{host: 127.0.0.1, port: 0, startup_timeout: 1s}") + "kafka: {brokers: [\"127.0.0.1:1\"]}\n"
			wantRefusal(t, run(t, program, nil, "--config", file(t, config)), program, "kafka at 127.0.0.1:1")
		})
		t.Run("PortInUse/"+program, func(t *testing.T) {
			t.Parallel()
			taken, err := net.Listen("tcp", "127.0.0.1:0")
			check.NoError(t, err)
			defer taken.Close()
			port := taken.Addr().(*net.TCPAddr).Port
			config := settings(t, postgrestest.URL(t), fmt.Sprintf("{host: 127.0.0.1, port: %d}", port)) + "kafka: {brokers: [\"127.0.0.1:1\"]}\n"
			wantRefusal(t, run(t, program, nil, "--config", file(t, config)), program, taken.Addr().String())
		})
	}

	t.Run("ArchiverOnAnOldSchema", func(t *testing.T) {
		t.Parallel()
		config := settings(t, postgrestest.Empty(t), "{port: 0}")
		wantRefusal(t, run(t, "archiver", nil, "--config", file(t, config)), "archiver", fmt.Sprintf("needs %d", migrate.Latest()))
	})
	t.Run("ArchiverWithABadSchedule", func(t *testing.T) {
		t.Parallel()
		config := settings(t, postgrestest.URL(t), "{port: 0}")
		wantRefusal(t, run(t, "archiver", nil, "--config", file(t, config), "--schedule", "daily"), "archiver", "daily")
	})
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	// The roles of the schema belong to the whole server. While this second database exists, its grants to these roles
	// prevent "migrate down" from dropping them.
	postgrestest.URL(t)
	at := postgrestest.Empty(t)
	newest := migrate.Latest()
	of := func(environment string) string {
		return file(t, settings(t, at, "{port: 0}")+"app: {environment: "+environment+"}\n")
	}
	says := func(version uint) string { return fmt.Sprintf("schema version %d, newest %d", version, newest) }
	for _, step := range []struct {
		args, environment string
		want              string // a part of the command's stdout or, when the command fails, of its error
		refused           bool
	}{
		{"version", "production", says(0), false},
		{"up", "production", says(newest), false},
		{"up", "production", says(newest), false},
		{"down", "production", says(newest - 1), false},
		{"up", "production", says(newest), false},
		{"down --all", "production", "--yes", true},
		{"down --all", "staging", "--yes", true},
		{"version", "staging", says(newest), false},
		{"down --all --yes", "production", says(0), false},
		{"up", "dev", says(newest), false},
		{"down --all", "dev", says(0), false},
		{"sideways", "dev", "sideways", true},
	} {
		args := append([]string{"--config", of(step.environment), "migrate"}, strings.Fields(step.args)...)
		got := run(t, "api", nil, args...)
		if step.refused {
			wantRefusal(t, got, "api", step.want)
			continue
		}
		if got.code != 0 || strings.TrimSpace(got.stdout) != step.want {
			t.Fatalf("migrate %s in %s: got exit code %d, stdout %q, stderr %q, want 0 and %q", step.args, step.environment, got.code, got.stdout, got.stderr, step.want)
		}
	}
}

func TestArchiver(t *testing.T) {
	t.Parallel()
	at := postgrestest.URL(t)
	db, err := sqlx.Connect("postgres", at)
	check.NoError(t, err)
	defer db.Close()
	db.MustExec(`INSERT INTO dlq.dlq_messages (original_topic, error_message, status, updated_at)
		SELECT 'orders', 'boom', 'DEAD', now() - interval '31 days' FROM generate_series(1, 25)`)
	config := file(t, settings(t, at, "{port: 0}")+"archive: {batch_size: 10}\n")

	if got := run(t, "archiver", nil, "--config", config); got.code != 0 || !strings.Contains(got.stderr, `"archived":25`) {
		t.Errorf("got exit code %d, stderr %q, want 0 and 25 rows archived", got.code, got.stderr)
	}
	var archived int
	if err := db.Get(&archived, `SELECT count(*) FROM dlq.dlq_messages_archive`); err != nil || archived != 25 {
		t.Errorf("got %d rows in the archive, %v, want 25", archived, err)
	}

	// Of the archived rows, 12 are old enough to be purged. Their partition is for a quarter of a year and also
	// contains younger rows, so it cannot be dropped.
	db.MustExec(`UPDATE dlq.dlq_messages_archive SET archived_at = now() - interval '366 days'
		WHERE id IN (SELECT id FROM dlq.dlq_messages_archive LIMIT 12)`)
	whole := file(t, settings(t, at, "{port: 0}")+"archive: {batch_size: 10, purge_whole_quarters: true}\n")
	for _, c := range []struct{ config, want string }{{whole, `"purged":0`}, {config, `"purged":12`}} {
		if got := run(t, "archiver", nil, "--config", c.config); got.code != 0 || !strings.Contains(got.stderr, c.want) {
			t.Errorf("got exit code %d, stderr %q, want 0 and %s", got.code, got.stderr, c.want)
		}
	}
	// Now the only partition contains all archived rows, and all of them are more than a year old.
	db.MustExec(`DO $$ DECLARE v_part TEXT; v_until TIMESTAMPTZ := date_trunc('quarter', now() - interval '460 days'); BEGIN
		UPDATE dlq.dlq_messages_archive SET archived_at = v_until - interval '1 day';
		FOR v_part IN SELECT name FROM dlq.archive_partitions ORDER BY until_at DESC LOOP
			EXECUTE format('ALTER TABLE dlq.dlq_messages_archive DETACH PARTITION dlq.%I', v_part);
			EXECUTE format('ALTER TABLE dlq.%I RENAME TO dlq_messages_archive_%s', v_part, md5(v_part));
			UPDATE dlq.archive_partitions SET name = 'dlq_messages_archive_' || md5(v_part), until_at = v_until WHERE name = v_part;
			v_part := 'dlq_messages_archive_' || md5(v_part);
		END LOOP;
		DELETE FROM dlq.archive_partitions WHERE name <> v_part;
		EXECUTE format('ALTER TABLE dlq.dlq_messages_archive ATTACH PARTITION dlq.%I FOR VALUES FROM (MINVALUE) TO (%L)', v_part, v_until);
	END $$`)
	if got := run(t, "archiver", nil, "--config", whole); got.code != 0 || !strings.Contains(got.stderr, `"purged":13`) {
		t.Errorf("got exit code %d, stderr %q, want 0 and 13 purged with their partition", got.code, got.stderr)
	}
	if err := db.Get(&archived, `SELECT count(*) FROM dlq.archive_partitions WHERE until_at < now() - interval '365 days'`); err != nil || archived != 0 {
		t.Errorf("got %d partitions that are due, %v, want none", archived, err)
	}

	p := start(t, "archiver", nil, "--config", config, "--schedule", "0 3 * * *")
	p.waitForLog("archiver waits")
	p.wantCleanEnd()
}

// TestOldSchema: with a schema that is too old, the programs keep running, and /readyz names the version that they
// need. They become ready by themselves when the schema has this version.
func TestOldSchema(t *testing.T) {
	t.Parallel()
	brokers := strings.Join(stacktest.Kafka(t), ",")
	postgrestest.URL(t)
	for _, program := range []string{"api", "ingester"} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			at, port := postgrestest.Empty(t), freePort(t)
			group := fmt.Sprintf("cmd-%s-%d", program, port)
			config := file(t, settings(t, at, fmt.Sprintf("{host: 127.0.0.1, port: %d}", port))+
				fmt.Sprintf("kafka: {brokers: [%s], consumer_group: %s, dlq_topic_pattern: \"%s.*\"}\n", brokers, group, group))
			p := start(t, program, nil, "--config", config)
			base := fmt.Sprintf("http://127.0.0.1:%d", port)

			wanted := fmt.Sprintf("needs %d", migrate.Latest())
			p.waitForAnswer(base+"/readyz", http.StatusServiceUnavailable, wanted)
			p.waitForAnswer(base+"/healthz", http.StatusOK, `{"status":"ok"}`)
			if got := run(t, "api", nil, "--config", config, "migrate", "up"); got.code != 0 {
				t.Fatalf("migrate up: got exit code %d, stderr %q, want 0", got.code, got.stderr)
			}
			p.waitForAnswer(base+"/readyz", http.StatusOK, `"ready"`)
			p.waitForAnswer(base+"/metrics", http.StatusOK, "go_goroutines")
			p.wantCleanEnd()
		})
	}
}

// TestOldNumbering: the programs refuse to start with a database that a version before v0.1.0 has created, in the first
// or the second numbering of the migrations.
func TestOldNumbering(t *testing.T) {
	t.Parallel()
	brokers := strings.Join(stacktest.Kafka(t), ",")
	for name, old := range map[string]struct{ comment, version string }{
		"First": {`NULL`, `33`}, "Second": {`'dlq-manager v0.1.0 or later'`, `25`},
	} {
		at := postgrestest.URL(t)
		db, err := sqlx.Connect("postgres", at)
		check.NoError(t, err)
		defer db.Close()
		db.MustExec(`COMMENT ON TABLE dlq_migrations.schema_migrations IS ` + old.comment)
		db.MustExec(`UPDATE dlq_migrations.schema_migrations SET version = ` + old.version)
		for _, args := range [][]string{{"api"}, {"ingester"}, {"archiver"}, {"api", "migrate", "up"}} {
			t.Run(name+"/"+strings.Join(args, " "), func(t *testing.T) {
				t.Parallel()
				config := file(t, settings(t, at, "{host: 127.0.0.1, port: 0}")+fmt.Sprintf("kafka: {brokers: [%s]}\n", brokers))
				wantRefusal(t, run(t, args[0], nil, append([]string{"--config", config}, args[1:]...)...), args[0], "version before v0.1.0")
			})
		}
	}
}

func TestWithoutDependencies(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	p := start(t, "api", []string{"DLQ_NO_SUCH_KEY=1"}, "--config", file(t, fmt.Sprintf("server: {host: 127.0.0.1, port: %d}\n", port)))
	base := fmt.Sprintf("http://127.0.0.1:%d", port)
	p.waitForAnswer(base+"/readyz", http.StatusOK, "in memory")
	p.waitForAnswer(base+"/api/v1/dlq/orders", http.StatusOK, `"total_count":0`)
	p.waitForLog("no database is configured")
	p.waitForLog("no kafka is configured")
	p.waitForLog("DLQ_NO_SUCH_KEY")
	p.wantCleanEnd()
}

func TestSIGTERMWhileStarting(t *testing.T) {
	t.Parallel()
	for _, program := range names {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections and never answers
			check.NoError(t, err)
			defer silent.Close()
			_, port, _ := net.SplitHostPort(silent.Addr().String())
			p := start(t, program, nil, "--config", file(t, "server: {host: 127.0.0.1, port: 0}\nkafka: {brokers: [\"127.0.0.1:1\"]}\n"+
				"database: {host: 127.0.0.1, port: "+port+", name: n, user: u}\n"))
			if conn, err := silent.Accept(); err == nil { // the program has connected, so it is running and waiting
				defer conn.Close()
			}
			p.wantCleanEnd()
		})
	}
}

// ended is the result of a program that has exited.
type ended struct {
	stdout, stderr string
	code           int
}

// run runs a program and waits until it exits.
func run(t *testing.T, program string, environ []string, args ...string) ended {
	t.Helper()
	path := binary(t, program) // the function binary may build the program, which must not count as time of the run
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, environ...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("run %s: %v", program, err)
	}
	return ended{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// wantRefusal checks that the program has exited with code 1, and that stderr has exactly one line that is not a log
// line. This line must contain the text in part. No line may contain a password or a panic.
func wantRefusal(t *testing.T, got ended, program, part string) {
	t.Helper()
	var said []string
	for line := range strings.Lines(got.stderr) {
		if !strings.HasPrefix(line, "{") {
			said = append(said, strings.TrimSpace(line))
		}
	}
	if got.code != 1 || len(said) != 1 || !strings.HasPrefix(said[0], "dlq-manager-"+program+": ") || !strings.Contains(said[0], part) {
		t.Errorf("got exit code %d and %q, want 1 and one line with %q", got.code, said, part)
	}
	for _, never := range []string{"goroutine ", "hunter2", "panic"} {
		if strings.Contains(got.stderr, never) {
			t.Errorf("got %q, want no %q in it", got.stderr, never)
		}
	}
}

// process is a running program.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	log  *lockedBuffer
	done chan error
}

func start(t *testing.T, program string, environ []string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(binary(t, program), args...), log: &lockedBuffer{}, done: make(chan error, 1)}
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, environ...)
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	check.NoError(t, p.cmd.Start())
	go func() { p.done <- p.cmd.Wait() }()
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	return p
}

// wantCleanEnd stops the program with SIGTERM, like Kubernetes. The program must exit with code 0 within 25 s.
func (p *process) wantCleanEnd() {
	p.t.Helper()
	p.wantCleanEndBy(syscall.SIGTERM)
}

func (p *process) wantCleanEndBy(signal os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil {
		p.t.Fatalf("signal: %v; log: %s", err, p.log)
	}
	select {
	case err := <-p.done:
		check.True(p.t, err == nil, "got %v, want exit code 0; log: %s", err, p.log)
	case <-time.After(25 * time.Second):
		p.t.Errorf("still there after 25 s; log: %s", p.log)
	}
}

// client has a timeout, so that a program that never answers fails the test.
var client = &http.Client{Timeout: time.Minute}

func (p *process) waitForLog(part string) {
	p.t.Helper()
	p.wait("a log line with "+part, func() bool { return strings.Contains(p.log.String(), part) })
}

func (p *process) waitForAnswer(address string, status int, part string) {
	p.t.Helper()
	var last string
	p.wait(fmt.Sprintf("%d with %s from %s", status, part, address), func() bool {
		answer, err := client.Get(address)
		if err != nil {
			last = err.Error()
			return false
		}
		defer answer.Body.Close()
		body, _ := io.ReadAll(answer.Body)
		last = fmt.Sprint(answer.StatusCode, " ", string(body))
		return answer.StatusCode == status && strings.Contains(string(body), part)
	}, &last)
}

// wait calls the function ask every 50 ms until it returns true. The test fails after 3 minutes, or when the program
// exits.
func (p *process) wait(what string, ask func() bool, last ...*string) {
	p.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for range 3600 {
		if ask() {
			return
		}
		select {
		case err := <-p.done:
			p.t.Fatalf("the program ended with %v, want %s; log: %s", err, what, p.log)
		case <-tick.C:
		}
	}
	seen := ""
	for _, l := range last {
		seen += *l
	}
	p.t.Fatalf("got %s, want %s; log: %s", seen, what, p.log)
}

// lockedBuffer is a buffer that the test can read while the program writes to it.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	check.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// settings returns a configuration with a database section and a server section.
func settings(t *testing.T, at, server string) string {
	t.Helper()
	u, err := url.Parse(at)
	check.NoError(t, err)
	password, _ := u.User.Password()
	return fmt.Sprintf("server: %s\ndatabase: {host: %q, port: %s, name: %q, user: %q, password: %q, max_open_conns: 5, max_idle_conns: 2}\n",
		server, u.Hostname(), u.Port(), strings.TrimPrefix(u.Path, "/"), u.User.Username(), password)
}

// freePort returns a port that is free at the moment.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.NoError(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
