package redrive_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/internal/test/stores"
	"github.com/dlq-manager/dlq-manager/pkg/archive/tier"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/redrive"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/bulk"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// archives is a service on a real database whose archive has messages in the database and, with a bucket, in objects.
type archives struct {
	*testing.T
	*redrive.Service
	url     string
	db      *sqlx.DB
	store   *postgres.Store
	archive bulk.Archive
	mover   *tier.Mover
	bucket  *tier.Config // nil: the whole archive is in the database
}

// newArchives returns a service with n archived messages of the topic orders, numbered from 1 by their age, and one of
// payments. With objects, all except the last five of orders are in objects.
func newArchives(t *testing.T, n int, objects bool) *archives {
	t.Helper()
	a := &archives{T: t, url: postgrestest.URL(t)}
	a.db = check.Must(sqlx.Connect("postgres", a.url))(t)
	t.Cleanup(func() { _ = a.db.Close() })
	a.store = postgres.New(a.db)
	postgrestest.Exec(t, a.db, `CREATE TABLE sent (claim_id uuid, message_id uuid, value bytea)`)
	postgrestest.Exec(t, a.db, `INSERT INTO dlq.topics (name) VALUES ('orders.dlq'), ('payments.dlq')`)
	if objects {
		a.bucket = newBucket(t)
	}
	a.archive = archiveOf(a.db, a.store, a.bucket)
	a.insert("payments", 1, 1, 2)
	a.insert("orders", 1, n-5, 2)
	if objects {
		bucket := check.Must(tier.OpenBucket(*a.bucket))(t)
		a.mover = tier.NewMover(postgres.NewObjects(a.db), bucket)
		moved := check.Must(a.mover.Move(t.Context()))(t)
		check.Same(t, moved, int64(n-4), "messages in objects")
	}
	a.insert("orders", n-4, n, 0)
	a.Service = serviceOf(a.db, a.store, a.archive)
	return a
}

func newBucket(t *testing.T) *tier.Config {
	t.Helper()
	server := stacktest.S3(t)
	name := "b-" + uuid.NewString()
	client := check.Must(minio.New(strings.TrimPrefix(server.Endpoint, "http://"), &minio.Options{
		Creds: credentials.NewStaticV4(server.AccessKey, server.Secret, ""), Region: server.Region,
	}))(t)
	check.NoError(t, client.MakeBucket(t.Context(), name, minio.MakeBucketOptions{Region: server.Region}))
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "secret")
		check.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	return &tier.Config{
		Endpoint: server.Endpoint, Region: server.Region, Bucket: name, Prefix: "dlq/", PathStyle: true,
		AccessKeyFile: file(server.AccessKey), SecretKeyFile: file(server.Secret),
	}
}

func archiveOf(db *sqlx.DB, store *postgres.Store, bucket *tier.Config) bulk.Archive {
	objects := postgres.NewObjects(db)
	if bucket == nil {
		return tier.NewUnconfigured(store, objects)
	}
	b, err := tier.OpenBucket(*bucket)
	if err != nil {
		panic(err)
	}
	return tier.NewArchive(store, objects, tier.NewRewriter(objects, b), b)
}

func serviceOf(db *sqlx.DB, store *postgres.Store, archive bulk.Archive) *redrive.Service {
	cfg := redrive.DefaultConfig()
	cfg.SettleInterval = 100 * time.Millisecond
	return redrive.New(cfg, stores.Fill[redrive.Stores](store), table{accepting{}, db, func(string) {}}, prometheus.NewRegistry(), zap.NewNop(),
		redrive.WithArchive(archive))
}

// table is a publisher whose log is a table of the test's database.
type table struct {
	accepting
	db *sqlx.DB
	at func(step string)
}

func (p table) Publish(_ context.Context, batch []entity.Outgoing) []entity.Delivery {
	p.at("claimed")
	deliveries := make([]entity.Delivery, len(batch))
	for i, out := range batch {
		if i == len(batch)/2 {
			p.at("half sent")
		}
		p.db.MustExec(`INSERT INTO sent VALUES ($1, $2, $3)`, out.Message.Claim.ID, out.Message.ID, out.Message.Record.Value)
		deliveries[i] = entity.Delivery{Verdict: entity.Acknowledged, Offset: int64(i)}
	}
	p.at("sent")
	return deliveries
}

func (p table) FindMany(_ context.Context, claims []entity.Claim) []entity.Delivery {
	found := make([]entity.Delivery, len(claims))
	for i, c := range claims {
		var n int
		if err := p.db.Get(&n, `SELECT count(*) FROM sent WHERE claim_id = $1`, c.ID); err != nil {
			panic(err)
		}
		if found[i] = (entity.Delivery{Verdict: entity.GivenBack, Offset: -1}); n > 0 {
			found[i] = entity.Delivery{Verdict: entity.Acknowledged, Class: entity.AlreadyPublished}
		}
	}
	return found
}

// insert archives messages of a topic with the numbers first to last, which were archived daysAgo days ago.
func (a *archives) insert(topic string, first, last, daysAgo int) {
	a.Helper()
	postgrestest.Exec(a.T, a.db, `WITH made AS (
		INSERT INTO dlq.dlq_messages_archive (original_topic, error_message, status, created_at, updated_at, archived_at, dlq_topic_id, dlq_incarnation_id,
			dlq_partition, dlq_offset, dlq_timestamp)
		SELECT $1::text, 'error', 'DEAD', now() - interval '40 days' + n * interval '1 minute', now() - interval '31 days', now() - $4::int * interval '1 day',
			(SELECT id FROM dlq.topics WHERE name = $1::text || '.dlq'), 1, 0, n, now()
		FROM generate_series($2::int, $3::int) n RETURNING id, dlq_offset AS n
	) INSERT INTO dlq.records (message_id, value) SELECT id, convert_to('{"n": ' || n || '}', 'UTF8') FROM made`, topic, first, last, daysAgo)
}

func (a *archives) number(query string, args ...any) int {
	a.Helper()
	return postgrestest.All[int](a.T, a.db, query, args...)[0]
}

// ids returns the archived messages of orders, the oldest first.
func (a *archives) ids() (ids []uuid.UUID) {
	a.Helper()
	entries := check.Must(a.archive.Select(a.Context(), orders(nil).Selection, 10_000))(a.T)
	for _, e := range entries {
		ids = append(ids, e.ID)
	}
	return ids
}

// orders returns a redrive that retries the archived messages of orders.
func orders(change func(*repository.NewRedrive)) repository.NewRedrive {
	n := repository.NewRedrive{
		Action: entity.RedriveRetry, Selection: entity.Selection{Archived: true, Filter: entity.Filter{Topic: "orders"}},
		Cause: entity.AuditInfo{Actor: "ada", Reason: "the consumer is mended", Operation: uuid.New()},
	}
	if change != nil {
		change(&n)
	}
	return n
}

// run carries out redrives and settles claims until the returned function is called.
func (a *archives) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var over sync.WaitGroup
	over.Go(func() { a.RunRedrives(ctx) })
	over.Go(func() { a.RunSettler(ctx) })
	return func() { cancel(); over.Wait() }
}

// redrive runs a redrive to its end and checks its results.
func (a *archives) redrive(n repository.NewRedrive, succeeded int, skipped map[string]int) entity.Redrive {
	a.Helper()
	a.Service = serviceOf(a.db, a.store, a.archive)
	made := check.Must(a.Begin(a.Context(), n))(a.T)
	defer a.run()()
	return a.wantOver(made.ID, succeeded, skipped)
}

func (a *archives) wantOver(id uuid.UUID, succeeded int, skipped map[string]int) entity.Redrive {
	a.Helper()
	ctx, cancel := context.WithTimeout(a.Context(), time.Minute)
	defer cancel()
	got := check.Must(a.Wait(ctx, id))(a.T)
	check.Equal(a.T, got.Counts.Reasons, skipped, "reasons")
	check.Same(a.T, got.Counts.Succeeded, succeeded, "messages that succeeded")
	return got
}

// wantPlaces checks how many messages of orders are archived, and how many are live with the status.
func (a *archives) wantPlaces(archived int, status entity.Status, live int) {
	a.Helper()
	check.Same(a.T, len(a.ids()), archived, "archived messages")
	check.Same(a.T, a.number(`SELECT count(*) FROM dlq.dlq_messages WHERE status = $1`, string(status)), live, "live messages that are "+string(status))
	check.Same(a.T, a.number(`SELECT count(*) FROM dlq.dlq_messages`), live, "live messages")
	check.Same(a.T, a.number(`SELECT count(*) FROM dlq.archive_ids`), archived+1, "ids of the archive, with that of payments")
}

// dueMessages counts the messages that automatic retry would send now.
const dueMessages = `SELECT count(*) FROM dlq.dlq_messages WHERE status = 'PENDING' AND (next_attempt_at IS NULL OR next_attempt_at <= now())`

// TestRedriveOfArchivedMessages: a redrive of archived messages restores each of them before it acts on it, from the
// database and from objects alike.
func TestRedriveOfArchivedMessages(t *testing.T) {
	t.Parallel()
	none := map[string]int{}
	for place, objects := range map[string]bool{"Database": false, "Objects": true} {
		each := func(name string, test func(a *archives)) {
			postgrestest.Parallel(t, place+"/"+name, func(t *testing.T) { test(newArchives(t, 40, objects)) })
		}
		each("RetrySendsEachOnce", func(a *archives) {
			ids := a.ids()
			check.Same(a.T, len(ids), 40, "archived messages")
			n := orders(nil)
			preview := check.Must(a.Preview(a.Context(), n))(a.T)
			check.True(a, preview.Selected == 40 && preview.Sendable == 40 && len(preview.Groups) == 1 && preview.Groups[0].Topic == "orders",
				"preview = %+v, want 40 messages of orders", preview)
			a.wantPlaces(40, entity.Pending, 0)
			a.redrive(n, 40, none)
			a.wantPlaces(0, entity.Resolved, 40)
			check.Equal(a.T, postgrestest.All[string](a.T, a.db, `SELECT convert_from(value, 'UTF8') FROM sent GROUP BY 1 HAVING count(*) = 1 ORDER BY length(convert_from(value, 'UTF8')), 1`)[:3],
				[]string{`{"n": 1}`, `{"n": 2}`, `{"n": 3}`}, "records")
			check.Same(a.T, a.number(`SELECT count(*) FROM sent`), 40, "records that were sent")
			check.Same(a.T, a.number(`SELECT count(*) FROM dlq.audit WHERE action = 'restore' AND operation_id = $1 AND actor = 'ada' AND reason = 'the consumer is mended'`,
				n.Cause.Operation), 40, "audit entries")
			again := check.Must(a.Begin(a.Context(), n))(a.T)
			check.True(a, again.State == entity.RedriveFinished && again.Selection.Archived && again.Selected == 40, "the same request again made %+v", again)
		})
		each("RestoreDoesNoMore", func(a *archives) {
			ids := a.ids()
			gone := uuid.New()
			n := orders(func(n *repository.NewRedrive) {
				n.Action, n.Selection.Topic, n.Selection.IDs = entity.RedriveRestore, "", []uuid.UUID{ids[39], gone, ids[0], ids[39]}
			})
			preview := check.Must(a.Preview(a.Context(), n))(a.T)
			check.True(a, preview.Selected == 3 && preview.Sendable == 2 && preview.Reasons["gone"] == 1, "preview = %+v, want 2 of 3", preview)
			a.redrive(n, 2, map[string]int{"gone": 1})
			a.wantPlaces(38, entity.Pending, 2)
			check.Same(a.T, a.number(dueMessages), 2, "messages that are due")
			check.Same(a.T, a.number(`SELECT count(*) FROM sent`), 0, "records that were sent")
		})
		each("DeadMarksThem", func(a *archives) {
			a.redrive(orders(func(n *repository.NewRedrive) { n.Action = entity.RedriveDead }), 40, none)
			a.wantPlaces(0, entity.Dead, 40)
		})
		each("AnIDThatIsLiveTooIsSkippedAndTheOthersGoOn", func(a *archives) {
			made := check.Must(a.Begin(a.Context(), orders(nil)))(a.T)
			for _, id := range []uuid.UUID{a.ids()[0], a.ids()[39]} {
				postgrestest.Exec(a.T, a.db, `INSERT INTO dlq.dlq_messages (id, original_topic, error_message, status) VALUES ($1, 'orders', 'error', 'PENDING')`, id)
			}
			defer a.run()()
			a.wantOver(made.ID, 38, map[string]int{"taken": 2})
		})
		each("ARowThatTheDatabaseRefusesIsSkippedAndTheOthersGoOn", func(a *archives) {
			made := check.Must(a.Begin(a.Context(), orders(nil)))(a.T)
			postgrestest.Exec(a.T, a.db, `ALTER TABLE dlq.dlq_messages ADD CHECK (dlq_offset NOT IN (1, 40))`)
			defer a.run()()
			a.wantOver(made.ID, 38, map[string]int{bulk.SkippedRefused: 2})
			a.wantPlaces(2, entity.Resolved, 38)
		})
		each("HoldLeavesOutAttemptedMessages", func(a *archives) {
			ids := a.ids()
			a.redrive(orders(func(n *repository.NewRedrive) { n.Action = entity.RedriveRestore }), 40, none)
			postgrestest.Exec(a.T, a.db, `UPDATE dlq.dlq_messages SET retry_count = 1 WHERE id = $1`, ids[0])
			check.NoError(a.T, a.archive.Hold(a.Context(), ids, time.Hour))
			check.Equal(a.T, postgrestest.All[uuid.UUID](a.T, a.db, `SELECT id FROM dlq.dlq_messages WHERE next_attempt_at <= now()`), ids[:1], "due messages")
		})
		each("DeleteErases", func(a *archives) {
			n := orders(func(n *repository.NewRedrive) { n.Action = entity.RedriveDelete })
			a.redrive(n, 40, none)
			a.wantPlaces(0, entity.Pending, 0)
			check.Same(a.T, a.number(`SELECT count(*) FROM dlq.audit WHERE action = 'erase' AND operation_id = $1`, n.Cause.Operation), 40, "audit entries")
			check.Same(a.T, a.number(`SELECT coalesce(sum(messages), 0) FROM dlq.archive_objects`), min(1, a.number(`SELECT count(*) FROM dlq.archive_objects`)), "rows in objects")
			check.Same(a.T, a.number(`SELECT count(*) FROM dlq.archive_deletions`), 0, "objects with erased bytes")
		})
		each("SelectionIsFrozenAndWhatIsGoneIsSkipped", func(a *archives) {
			ids := a.ids()
			made := check.Must(a.Begin(a.Context(), orders(nil)))(a.T)
			a.insert("orders", 41, 45, 0)
			for _, id := range []uuid.UUID{ids[0], ids[38]} {
				check.NoError(a.T, a.archive.EraseEach(a.Context(), repository.ArchivedWork{
					IDs: []uuid.UUID{id}, Cause: entity.By("bob"), Done: func(_ uuid.UUID, err error) { check.NoError(a.T, err) },
				}))
			}
			if a.mover != nil { // a message that moves to an object stays selected
				postgrestest.Exec(a.T, a.db, `UPDATE dlq.dlq_messages_archive SET archived_at = now() - interval '3 days'`)
				check.Must(a.mover.Move(a.Context()))(a.T)
			}
			defer a.run()()
			a.wantOver(made.ID, 38, map[string]int{"gone": 2})
			a.wantPlaces(5, entity.Resolved, 38)
		})
		each("OnlyVisibleTopicsAndTimes", func(a *archives) {
			visible := check.Must(entity.ParseTopicPatterns("topics", "pay*"))(a.T)
			all := check.Must(entity.ParseTopicPatterns("topics", "*"))(a.T)
			a.redrive(orders(func(n *repository.NewRedrive) {
				n.Action, n.Selection.Topic, n.Selection.Topics, n.Selection.Visible = entity.RedriveRestore, "", all, &visible
			}), 1, none)
			check.Equal(a.T, postgrestest.All[string](a.T, a.db, `SELECT original_topic FROM dlq.dlq_messages`), []string{"payments"}, "restored")
			entries := check.Must(a.archive.Select(a.Context(), orders(nil).Selection, 100))(a.T)
			a.redrive(orders(func(n *repository.NewRedrive) {
				n.Action, n.Selection.CreatedAfter, n.Selection.CreatedBefore = entity.RedriveRestore, entries[3].CreatedAt.Time(), entries[37].CreatedAt.Time()
			}), 34, none)
		})
		each("OtherFiltersAndActionsAreInvalid", func(a *archives) {
			for field, change := range map[string]func(*repository.NewRedrive){
				"filter.status":        func(n *repository.NewRedrive) { n.Selection.Statuses = []entity.Status{entity.Dead} },
				"filter.error_class":   func(n *repository.NewRedrive) { n.Selection.ErrorClass = "Boom" },
				"filter.q":             func(n *repository.NewRedrive) { n.Selection.Words = []string{"boom"} },
				"filter.retried_after": func(n *repository.NewRedrive) { n.Selection.RetriedAfter = time.Now() },
				"action":               func(n *repository.NewRedrive) { n.Action = entity.RedriveRequeue },
			} {
				for _, err := range []error{check.Err(a.Begin(a.Context(), orders(change))), check.Err(a.Preview(a.Context(), orders(change)))} {
					check.Same(a.T, check.As[*entity.FieldError](a.T, err, field).Field, field, "field")
				}
			}
			_, err := a.archive.Select(a.Context(), orders(nil).Selection, 39)
			check.As[*entity.FieldError](a.T, err, "a selection of 40 with a limit of 39")
		})
		each("RestoresEachOnlyOnce", func(a *archives) {
			made := check.Must(a.Begin(a.Context(), orders(nil)))(a.T)
			a.kill("restored")
			postgrestest.Exec(a.T, a.db, `UPDATE dlq.dlq_messages SET status = 'DEAD', updated_at = now() - interval '31 days'`)
			postgrestest.Exec(a.T, a.db, `CALL dlq.archive_old_dlq_messages()`)
			defer a.run()()
			a.wantOver(made.ID, 0, map[string]int{"gone": 40})
			a.wantPlaces(40, entity.Pending, 0)
		})
		for _, step := range []string{"some restored", "restored", "claimed", "half sent", "sent", "before saved", "after saved"} {
			each("KilledWhen "+step, func(a *archives) {
				made := check.Must(a.Begin(a.Context(), orders(nil)))(a.T)
				a.kill(step)
				check.Same(a.T, a.number(dueMessages), 0, "messages that automatic retry would send")
				defer a.run()()
				a.wantOver(made.ID, 40, none)
				a.wantPlaces(0, entity.Resolved, 40)
				check.Same(a.T, a.number(`SELECT count(*) FROM sent`), 40, "records that were sent")
				check.Same(a.T, a.number(`SELECT count(DISTINCT message_id) FROM sent`), 40, "messages that were sent")
				check.Same(a.T, a.number(`SELECT count(*) FROM dlq.audit WHERE action = 'restore'`), 40, "restores")
			})
		}
	}
	postgrestest.Parallel(t, "Objects/DamagedObjectIsNamedAndTheOthersGoOn", func(t *testing.T) {
		a := newArchives(t, 40, true)
		postgrestest.Exec(t, a.db, `UPDATE dlq.archive_objects SET sha256 = '\x00'`)
		a.redrive(orders(nil), 5, map[string]int{bulk.SkippedUnreadable: 35})
		a.wantPlaces(35, entity.Resolved, 5)
	})
	postgrestest.Parallel(t, "Objects/AnotherBucketIsWaitedForAndNamed", func(t *testing.T) {
		a := newArchives(t, 40, true)
		made := check.Must(a.Begin(t.Context(), orders(nil)))(t)
		postgrestest.Exec(t, a.db, `UPDATE dlq.archive_objects SET bucket = 'elsewhere'`)
		defer a.run()()
		check.Eventually(t, "a redrive that waits", func() bool { return !check.Must(a.store.Redrive(t.Context(), made.ID))(t).WaitingSince.IsZero() })
		note := check.Must(a.store.Redrive(t.Context(), made.ID))(t).Note
		check.True(t, strings.Contains(note, "is in the bucket elsewhere, but archive.s3.bucket is "+a.bucket.Bucket), "note = %q, want the names of the buckets", note)
		postgrestest.Exec(t, a.db, `UPDATE dlq.archive_objects SET bucket = $1`, a.bucket.Bucket)
		a.wantOver(made.ID, 40, none)
		a.wantPlaces(0, entity.Resolved, 40)
	})
	postgrestest.Parallel(t, "Objects/UnreachableStoreIsWaitedFor", func(t *testing.T) {
		a := newArchives(t, 40, true)
		broken := &flaky{Archive: a.archive, fail: true, failed: make(chan struct{})}
		a.Service = serviceOf(a.db, a.store, broken)
		made := check.Must(a.Begin(t.Context(), orders(func(n *repository.NewRedrive) { n.Action = entity.RedriveRestore })))(t)
		defer a.run()()
		<-broken.failed
		a.wantOver(made.ID, 40, none)
		a.wantPlaces(0, entity.Pending, 40)
	})
}

// flaky is an archive whose first restoration fails after three messages, as if the object store did not answer.
type flaky struct {
	bulk.Archive
	fail   bool
	failed chan struct{}
}

func (f *flaky) RestoreEach(ctx context.Context, w repository.ArchivedWork) error {
	if !f.fail {
		return f.Archive.RestoreEach(ctx, w)
	}
	f.fail = false
	defer close(f.failed)
	w.IDs = w.IDs[:3]
	if err := f.Archive.RestoreEach(ctx, w); err != nil {
		return err
	}
	return entity.ErrUnavailable
}

// restorerVariable is the environment variable that makes the test binary a process which works on redrives until it is
// killed.
const restorerVariable = "DLQ_REDRIVE_TEST_RESTORER"

// restorer says on which archive the process works, and at which step it waits to be killed.
type restorer struct {
	Database string
	Bucket   *tier.Config
	Step     string
}

// beRestorer works on redrives. At the step it prints a line, and then waits for ever.
func beRestorer(text string) {
	var r restorer
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		panic(err)
	}
	db := sqlx.MustOpen("postgres", r.Database)
	at := func(step string) {
		if step == r.Step {
			fmt.Println("here")
			select {}
		}
	}
	store := postgres.New(db)
	service := redrive.New(redrive.DefaultConfig(), stores.Fill[redrive.Stores](steppedStore{store, at}), table{accepting{}, db, at},
		prometheus.NewRegistry(), zap.NewNop(), redrive.WithArchive(steppedArchive{archiveOf(db, store, r.Bucket), at}))
	service.RunRedrives(context.Background())
}

// steppedArchive calls the function at while it restores messages.
type steppedArchive struct {
	bulk.Archive
	at func(step string)
}

func (s steppedArchive) RestoreEach(ctx context.Context, w repository.ArchivedWork) error {
	n, done := 0, w.Done
	w.Done = func(id uuid.UUID, err error) {
		done(id, err)
		if n++; n == 3 {
			s.at("some restored")
		}
	}
	err := s.Archive.RestoreEach(ctx, w)
	s.at("restored")
	return err
}

// steppedStore calls the function at before and after it saves a batch.
type steppedStore struct {
	*postgres.Store
	at func(step string)
}

func (s steppedStore) SaveBatch(ctx context.Context, r repository.BatchResults) (bool, error) {
	s.at("before saved")
	ok, err := s.Store.SaveBatch(ctx, r)
	s.at("after saved")
	return ok, err
}

// kill works on redrives in another process, and kills that process with SIGKILL when it has reached the step. Then it
// lets the leases and claims of that process expire.
func (a *archives) kill(step string) {
	a.Helper()
	text := check.Must(json.Marshal(restorer{a.url, a.bucket, step}))(a.T)
	ctx, cancel := context.WithTimeout(a.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), restorerVariable+"="+string(text))
	out := check.Must(cmd.StdoutPipe())(a.T)
	check.NoError(a.T, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	check.Require(a.T, err == nil && line == "here\n", "the process says %q and %v, want that it has reached %q", line, err, step)
	check.NoError(a.T, cmd.Process.Kill())
	_, _ = io.Copy(io.Discard, out)
	_ = cmd.Wait()
	postgrestest.Exec(a.T, a.db, `UPDATE dlq.redrive_batches SET lease_expires_at = now() WHERE owner IS NOT NULL`)
	postgrestest.Exec(a.T, a.db, `UPDATE dlq.dlq_messages SET claim_expires_at = now() WHERE claim_id IS NOT NULL`)
}
