package browser

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/integration/programs"
	"github.com/dlq-manager/dlq-manager/integration/proxy"
	servers "github.com/dlq-manager/dlq-manager/integration/stack"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// fragile is an API with messages in its database, which were stored by SQL. The test can suspend its Kafka, its
// database, and the API itself.
type fragile struct {
	kafka    *servers.Stack
	database *proxy.Proxy
	api      *programs.Process
	sql      *sqlx.DB
}

func newFragile(t *testing.T) *fragile {
	t.Helper()
	f := &fragile{}
	var err error
	if f.kafka, err = servers.Start(t.Context(), servers.Options{Kafka: true, Own: true, Fast: true, Log: os.Stderr}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = f.kafka.ResumeKafka()
		_ = f.kafka.Stop()
	})
	at, err := url.Parse(postgrestest.URL(t))
	if err == nil {
		f.sql, err = sqlx.Connect("postgres", at.String())
	}
	if err == nil {
		f.database, err = proxy.Listen(nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.sql.Close(); f.database.Close() })
	f.database.To(at.Host)
	at.Host = f.database.Addr()

	s := &Site{t: t, folder: t.TempDir(), programs: built(t), Prefix: "truth."}
	s.config = filepath.Join(s.folder, "config.yaml")
	cfg := programs.Config{Database: at.String(), Broker: f.kafka.Brokers()[0], Group: "truth-ingester", Pattern: "truth.*.dlq.v1"}
	if err := cfg.Write(s.config); err != nil {
		t.Fatal(err)
	}
	f.api = s.start("api")
	return f
}

// fill puts messages into the database: 1,200 PENDING messages and 3 DEAD ones.
func (f *fragile) fill(t *testing.T) {
	t.Helper()
	if _, err := f.sql.Exec(`INSERT INTO dlq.dlq_messages (original_topic, error_message, status)
		SELECT 'truth.orders', 'boom', CASE WHEN n <= 3 THEN 'DEAD' ELSE 'PENDING' END FROM generate_series(1, 1203) n`); err != nil {
		t.Fatal(err)
	}
}

// on returns the same tab for a subtest, so that a failed step fails the subtest.
func (b *Browser) on(t *testing.T) *Browser {
	inner := *b
	inner.t = t
	return &inner
}

// TestTruth: the test suspends Kafka, the database and the API, one after the other. The pages show each value that
// cannot be read as a dash with the reason, never as zero. A page that gets no answer from the API says so.
func TestTruth(t *testing.T) {
	t.Parallel()
	f := newFragile(t)
	f.fill(t)
	b := Open(t, f.api.URL)
	b.Allow("Failed to load resource")
	b.Visit("/")
	b.In("#all-pending").WaitText("1,200")
	b.In("#dependencies").WaitText("not running")
	b.Wait("the tab has the count", `document.title.startsWith("(1,200) Overview")`)

	t.Run("Kafka", func(t *testing.T) {
		b := b.on(t)
		if err := f.kafka.PauseKafka(); err != nil {
			t.Fatal(err)
		}
		b.WaitText("Kafka does not answer") // the text appears without a reload, because the open page updates itself
		for _, path := range []string{"/", "/topics"} {
			b.Visit(path)
			b.WaitText("Kafka does not answer")
			b.WaitText("1,200")
			b.WaitText("not known: Kafka does not answer")
			b.Look("without-kafka" + map[string]string{"/topics": "-topics"}[path])
		}
		b.Visit("/")
		b.In("#all-dead").WaitText("3")
		b.In("#ingest-lag").WaitText("–")
		if err := f.kafka.ResumeKafka(); err != nil {
			t.Fatal(err)
		}
		b.WaitGone("Kafka does not answer")
	})

	t.Run("Database", func(t *testing.T) {
		b := b.on(t)
		f.database.Slow(proxy.Slowness{Latency: time.Hour}) // delays all bytes, as if the server were suspended
		b.Visit("/")
		b.WaitText("The database does not answer")
		for _, id := range []string{"#all-pending", "#all-retrying", "#all-dead", "#recent", "#last-arrival", "#ingest-lag"} {
			if got := b.In(id).Text(".value"); got != "–" {
				t.Errorf("%s shows %q, want a dash", id, got)
			}
			b.In(id).WaitText("not known")
		}
		for _, wrong := range []string{"No error group has open messages", "No topic has open messages", "none waiting", "0 arrived"} {
			b.WaitGone(wrong)
		}
		b.Look("without-database")
		f.database.Slow(proxy.Slowness{})
		f.database.CutAll()
		b.WaitGone("The database does not answer")
		b.In("#all-pending").WaitText("1,200")
	})

	t.Run("API", func(t *testing.T) {
		b := b.on(t)
		b.Visit("/")
		b.In("#all-pending").WaitText("1,200")
		began := b.Text(".as-of time")
		f.api.Signal(syscall.SIGSTOP)
		defer f.api.Signal(syscall.SIGCONT)
		b.Wait("the part is marked", `document.querySelector("#now.stale")`)
		b.WaitText(fmt.Sprintf("as of %s", began[:4]))
		b.In("#stale").WaitText("The server does not answer")
		b.Screenshot("without-api")
		f.api.Signal(syscall.SIGCONT)
		b.Wait("it is fresh again", `!document.querySelector("#now.stale") && document.querySelector("#stale").hidden`)
	})
}
