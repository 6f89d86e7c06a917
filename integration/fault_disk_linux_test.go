package integration_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/integration/stack"
	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// disk is a small file system in memory.
type disk struct {
	t    *testing.T
	path string
}

const diskPrefix = "dlq-manager-disk-"

// newDisk mounts a file system of some megabytes, which needs root, or sudo without a password. There is no other way
// to test a full disk, because file size limits and quotas cause other errors.
func newDisk(t *testing.T, megabytes int) *disk {
	t.Helper()
	removeAbandonedDisks()
	path, err := os.MkdirTemp("", diskPrefix+strconv.Itoa(os.Getpid())+"-")
	check.NoError(t, err)
	size := fmt.Sprintf("size=%dm,mode=1777", megabytes)
	if out, err := asRoot("mount", "-t", "tmpfs", "-o", size, "tmpfs", path).CombinedOutput(); err != nil {
		_ = os.Remove(path)
		t.Fatalf("a disk to fill needs mount -t tmpfs: run this as root, or where sudo asks for no password: %v\n%s", err, out)
	}
	t.Cleanup(func() { removeDisk(path) })
	return &disk{t, path}
}

func asRoot(name string, args ...string) *exec.Cmd {
	if os.Geteuid() == 0 {
		return exec.Command(name, args...)
	}
	return exec.Command("sudo", append([]string{"-n", name}, args...)...)
}

// removeDisk detaches the disk at once; its memory is freed when no process uses it any more.
func removeDisk(path string) {
	_ = asRoot("umount", "--lazy", path).Run()
	_ = os.Remove(path) // Remove never deletes files: it fails if the folder is not empty
}

// removeAbandonedDisks removes the disks of test processes that were killed.
func removeAbandonedDisks() {
	paths, _ := filepath.Glob(filepath.Join(os.TempDir(), diskPrefix+"*")) // the pattern is valid
	for _, path := range paths {
		owner, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(path), diskPrefix), "-")
		pid, err := strconv.Atoi(owner)
		if err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			removeDisk(path)
		}
	}
}

func (d *disk) ballast() string { return filepath.Join(d.path, "ballast") }

// fill fills the disk to the last byte.
func (d *disk) fill() {
	d.t.Helper()
	file, err := os.OpenFile(d.ballast(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	check.NoError(d.t, err)
	defer func() { _ = file.Close() }()
	for size := 1 << 20; size > 0; {
		_, err := file.Write(make([]byte, size))
		switch {
		case errors.Is(err, syscall.ENOSPC):
			size /= 2
		case err != nil:
			d.t.Fatalf("fill the disk: %v", err)
		}
	}
}

func (d *disk) free() {
	d.t.Helper()
	check.NoError(d.t, os.Remove(d.ballast()))
}

// TestFaultDatabaseDiskFull: PostgreSQL's disk is full: first only tables cannot grow, then the write-ahead log cannot
// grow either, which stops the server. Records that cannot be stored stay in Kafka, and no record goes into quarantine.
// When there is space again, work continues.
func TestFaultDatabaseDiskFull(t *testing.T) {
	t.Parallel()
	small := newDisk(t, 128)
	own := ownStack(t, stack.Options{Postgres: true, Dir: small.path, PostgresSettings: map[string]string{
		"min_wal_size": "32MB", "max_wal_size": "32MB",
	}})
	l := newLetters(newSystemOn(t, stacktest.Kafka(t), makeDatabase(t, own)))
	api, ingester := l.startReady("api", impatient()...), l.startReady("ingester")
	l.produce(500, nil)
	l.waitStored()
	for range pick(1, 3) {
		log := ingester.listen()
		failures := ingester.metric("dlq_ingest_store_failures_total")
		small.fill()
		l.produce(pick(2000, 5000), nil)
		log.says("the store does not take records; ingest waits", "No space left on device")
		l.wantOffsetsStored()
		l.wantStillHonest(api)
		if got := ingester.metric("dlq_ingest_store_failures_total"); got <= failures {
			t.Errorf("dlq_ingest_store_failures_total is %v, want more than %v", got, failures)
		}
		if got := l.count("true"); got >= len(l.sent) {
			t.Errorf("all %d records are stored on a full disk", got)
		}
		l.endByFullLog()
		eventuallyAs(t, readinessFollows, "the ingester is not ready", func() bool { return ingester.status("/readyz") == 503 })
		wantSentAway(t, api.crowd(5, "/api/v1/dlq/"+l.source, 40*time.Second))
		api.wantRunning()
		ingester.wantRunning()
		small.free()
		l.restartPostgres(own)
		l.waitStored()
		l.wantNoFalseSuccess()
	}
	l.kafka.waitNoLag(l.prefix, l.source)
	l.wantStoredOnce()
	eventuallyAs(t, readinessFollows, "both are ready", func() bool {
		return api.status("/readyz") == 200 && ingester.status("/readyz") == 200
	})
	l.retryTheRest(api)
	l.wantResolvedOnce()
}

// wantStillHonest retries messages while PostgreSQL cannot store anything. The API must refuse a retry, or answer with
// success only if the record is in the original topic.
func (l *letters) wantStillHonest(api *process) {
	l.t.Helper()
	answers := l.clicks(l.somePending(10), api)
	published, refused := l.published(), 0
	for _, a := range answers {
		if a.status != http.StatusOK {
			refused++
			wantUnavailable(l.t, a.answer, "retry", 503)
		} else if published[a.id] != 1 {
			l.t.Errorf("retry of %s = 200 with %d records, want one", a.id, published[a.id])
		}
	}
	l.t.Logf("%d of %d retries were refused when tables could not grow", refused, len(answers))
}

// endByFullLog fills the disk by PostgreSQL's write-ahead log. The server then stops, and it cannot start again,
// because recovery needs space.
func (l *letters) endByFullLog() {
	l.t.Helper()
	eventually(l.t, "PostgreSQL ends because its log is full", func() bool {
		for range 100 {
			if _, err := l.db.Exec(`SELECT pg_logical_emit_message(false, 'full', repeat('x', 1000000))`); err != nil {
				break
			}
		}
		return l.db.Ping() != nil
	})
}

// restartPostgres starts the server as an operator does when there is space again, unless it has
// already restarted by itself.
func (l *letters) restartPostgres(own *stack.Stack) {
	l.t.Helper()
	if err := l.db.Ping(); err == nil {
		l.t.Log("PostgreSQL was up again by itself")
		return
	}
	check.NoError(l.t, errors.Join(own.KillPostgres(), own.StartPostgres(l.t.Context())))
}

// TestFaultKafkaDiskFull: Kafka's disk fills up while the API retries all messages, and the broker stops. No client
// gets a success for a record that is not in the topic. When there is space again and the broker is started, work
// continues.
func TestFaultKafkaDiskFull(t *testing.T) {
	t.Parallel()
	small := newDisk(t, 96)
	own := ownStack(t, stack.Options{Kafka: true, KafkaSettings: map[string]string{
		"log.dirs": filepath.Join(small.path, "data"),
	}})
	l := newLetters(newSystemOn(t, own.Brokers(), postgrestest.URL(t)))
	api, ingester := l.startReady("api", impatient()...), l.startReady("ingester")
	for range pick(1, 3) {
		l.produce(5000, nil)
		l.waitStored()
		l.slow(time.Second) // slows down statements, so that most messages are still unsent when the disk is full
		id := l.begin(api)
		point := l.with("RESOLVED") + 1 + l.random.IntN(1000)
		eventually(t, "some messages are resolved", func() bool { return l.with("RESOLVED") >= point })
		small.fill()
		eventually(t, "the redrive waits", func() bool { return l.waitsFor(api, id) })
		l.slow(0)
		t.Logf("%d were resolved, %d in doubt and %d pending when the disk was full",
			l.with("RESOLVED"), l.with("RETRYING"), l.with("PENDING"))
		l.wantNoAttempt(api)
		eventuallyAs(t, readinessFollows, "the ingester is not ready", func() bool { return ingester.status("/readyz") == 503 })
		api.wantRunning()
		ingester.wantRunning()
		small.free()
		check.NoError(t, errors.Join(own.KillKafka(), own.StartKafka(t.Context())))
		eventuallyAs(t, readinessFollows, "the ingester is ready again", func() bool { return ingester.status("/readyz") == 200 })
		l.kafka.waitLeaders(l.target)
		l.wantNoFalseSuccess()
		l.produce(100, nil)
		l.waitStored()
		if got := l.finished(api, id); got.Dead != 0 {
			t.Errorf("redrive = %+v, want nothing dead", got)
		}
		l.retryTheRest(api)
	}
	l.wantStoredOnce()
	l.wantResolvedOnce()
}

// waitsFor reports whether the redrive with this id waits for Kafka or the database, according to the API.
func (l *letters) waitsFor(api *process, id string) bool {
	var got struct {
		WaitingSince *string `json:"waiting_since"`
	}
	status, body := api.try(http.MethodGet, "/api/v1/redrives/"+id, nil)
	return status == http.StatusOK && json.Unmarshal(body, &got) == nil && got.WaitingSince != nil
}
