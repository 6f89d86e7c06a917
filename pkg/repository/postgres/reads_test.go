package postgres

import (
	"context"
	"net"
	"net/url"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/integration/proxy"
	"github.com/dlq-manager/dlq-manager/integration/stack"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/migrate"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/secret"
)

// replicated is a store on a database that has a streaming replica, with Reads that use the replica.
type replicated struct {
	*Store
	t        *testing.T
	servers  *stack.Stack
	standby  *sqlx.DB
	reads    *Reads
	registry *prometheus.Registry
}

func newReplicated(t *testing.T) *replicated {
	t.Helper()
	servers := check.Must(stack.Start(t.Context(), stack.Options{Postgres: true, Standby: true, Own: true, Fast: true}))(t)
	t.Cleanup(func() { check.NoError(t, servers.Stop()) })
	open := func(url string) *sqlx.DB {
		db := check.Must(sqlx.Open("postgres", url+"&binary_parameters=yes"))(t)
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
	db := open(servers.DatabaseURL())
	check.NoError(t, migrate.Up(t.Context(), db.DB))
	r := &replicated{Store: New(db), t: t, servers: servers, standby: open(servers.StandbyURL()), registry: prometheus.NewRegistry()}
	r.reads = r.follow(r.standbyAddress(), time.Hour, r.registry)
	return r
}

// follow starts Reads that use the replica at the given address while the replica's data is not older than maxLag, and
// returns these Reads. They are stopped when the test ends.
func (r *replicated) follow(address string, maxLag time.Duration, registry *prometheus.Registry) *Reads {
	r.t.Helper()
	at := check.Must(url.Parse(r.servers.StandbyURL()))(r.t)
	password, _ := at.User.Password()
	host, port, _ := net.SplitHostPort(address)
	cfg := DefaultConfig()
	cfg.Host, cfg.User, cfg.Name, cfg.Password = host, at.User.Username(), at.Path[1:], secret.Text(password)
	cfg.Port = check.Must(strconv.Atoi(port))(r.t)
	reads := check.Must(r.NewReads(cfg, maxLag, registry, zap.NewNop()))(r.t)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); reads.Run(ctx) }()
	r.t.Cleanup(func() { stop(); <-ended; check.NoError(r.t, reads.Close()) })
	return reads
}

// standbyAddress returns host:port of the replica.
func (r *replicated) standbyAddress() string {
	r.t.Helper()
	return check.Must(url.Parse(r.servers.StandbyURL()))(r.t).Host
}

// shown returns the number of messages that a search without conditions finds through reads, at most a hundred.
func (r *replicated) shown(reads *Reads, ctx context.Context) int {
	r.t.Helper()
	page := check.Must(reads.Search(ctx, repository.SearchQuery{Limit: 100}))(r.t)
	return len(page.Messages)
}

// answers returns how many reads the metric dlq_replica_reads_total has counted for the given value of its label
// answer, such as "replica".
func (r *replicated) answers(answer string) float64 {
	r.t.Helper()
	return answersIn(r.t, r.registry, answer)
}

func answersIn(t *testing.T, registry *prometheus.Registry, answer string) (n float64) {
	t.Helper()
	for _, family := range check.Must(registry.Gather())(t) {
		for _, m := range family.Metric {
			if family.GetName() == "dlq_replica_reads_total" && m.Label[0].GetValue() == answer {
				n = m.Counter.GetValue()
			}
		}
	}
	return n
}

// awaitReplica repeats a search until the replica, and not the database, answers it with exactly n messages.
func (r *replicated) awaitReplica(n int) { r.t.Helper(); r.awaitReads(r.reads, r.registry, n) }

func (r *replicated) awaitReads(reads *Reads, registry *prometheus.Registry, n int) {
	r.t.Helper()
	for range 3000 {
		before := answersIn(r.t, registry, "replica")
		if r.shown(reads, repository.WithReading(r.t.Context(), "")) == n && answersIn(r.t, registry, "replica") > before {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	r.t.Fatalf("the replica never answered with %d messages", n)
}

// pause makes the replica stop replaying the changes of the database.
func (r *replicated) pause() {
	r.t.Helper()
	check.Must(r.standby.ExecContext(r.t.Context(), `SELECT pg_wal_replay_pause()`))(r.t)
}

// TestReadsOfAReplica: a read uses the replica when the replica has replayed the caller's own changes and its data is
// not too old; otherwise the read uses the database.
func TestReadsOfAReplica(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	late := r.follow(r.standbyAddress(), 0, prometheus.NewRegistry())
	pendingMessages(t, r.Store, "orders.dlq", 2)
	r.awaitReplica(2)

	r.pause()
	pendingMessages(t, r.Store, "payments.dlq", 3)
	mark := check.Must(r.reads.WriteMark(t.Context()))(t)
	anyone, writer := repository.WithReading(t.Context(), ""), repository.WithReading(t.Context(), mark)
	check.Equal(t, r.shown(r.reads, anyone), 2, "messages that the paused replica shows")
	check.Equal(t, r.shown(r.reads, writer), 5, "messages that the caller shows who stored three")
	check.Equal(t, r.answers("behind"), 1.0, "reads that the replica was behind for")
	check.Equal(t, r.shown(r.reads, t.Context()), 5, "messages without a Reading")
	check.Equal(t, r.shown(late, repository.WithReading(t.Context(), "")), 5, "messages with a replica that is too old")

	check.Must(r.standby.ExecContext(t.Context(), `SELECT pg_wal_replay_resume()`))(t)
	r.awaitReplica(5)
	check.Equal(t, r.shown(r.reads, writer), 5, "messages")
	check.Equal(t, r.answers("behind"), 1.0, "a request that was answered by the database asks the replica no more")
	before := r.answers("replica")
	check.Equal(t, r.shown(r.reads, repository.WithReading(t.Context(), mark)), 5, "messages that the replica has replayed")
	check.Equal(t, r.answers("replica"), before+1, "reads that the replica answered")

	before = r.answers("failed") + r.answers("late")
	check.NoError(t, r.servers.KillStandby())
	check.Equal(t, r.shown(r.reads, repository.WithReading(t.Context(), "")), 5, "messages without the replica")
	check.Equal(t, r.answers("failed")+r.answers("late"), before+1, "reads that the replica did not answer")
	pendingMessages(t, r.Store, "refunds.dlq", 1)
	check.NoError(t, r.servers.StartStandby(t.Context()))
	r.awaitReplica(6)
	check.True(t, r.reads.CheckMark("16/zz") != nil && r.reads.CheckMark(mark) == nil, "CheckMark")
}

// TestEveryReadOfAReplica: the replica can answer each method of Reads, and gives the same answers as the database.
func TestEveryReadOfAReplica(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	ids := pendingMessages(t, r.Store, "orders.dlq", 3)
	group := r.newGroup("orders.dlq")
	check.Must(r.MarkDead(t.Context(), ids[0], entity.By("alice")))(t)
	check.Must(r.MarkDead(t.Context(), ids[1], entity.By("alice")))(t)
	db := r.db.Pool
	exec(t, db, `UPDATE dlq.dlq_messages SET updated_at = now() - interval '40 days', created_at = now() - interval '40 days' WHERE id = $1`, ids[1])
	exec(t, db, `CALL dlq.archive_old_dlq_messages(30, 1000)`)
	r.awaitReplica(2)
	mark := check.Must(r.reads.WriteMark(t.Context()))(t)

	until := time.Now().UTC().Truncate(time.Minute).Add(time.Minute)
	everyRead := map[string]func(context.Context) (any, error){
		"Search": func(ctx context.Context) (any, error) { return r.reads.Search(ctx, repository.SearchQuery{Limit: 9}) },
		"SearchArchive": func(ctx context.Context) (any, error) {
			return r.reads.Search(ctx, repository.SearchQuery{Limit: 9, Archived: true})
		},
		"CountMatching": func(ctx context.Context) (any, error) {
			return r.reads.CountMatching(ctx, repository.CountQuery{How: repository.CountExact})
		},
		"Export": func(ctx context.Context) (any, error) {
			var found []uuid.UUID
			err := r.reads.Export(ctx, repository.ExportQuery{Limit: 9}, func(m *entity.Message) error { found = append(found, m.ID); return nil })
			return found, err
		},
		"IndexedUntil": func(ctx context.Context) (any, error) { return r.reads.IndexedUntil(ctx) },
		"List": func(ctx context.Context) (any, error) {
			return r.reads.List(ctx, "orders.dlq", repository.Page{Number: 1, Size: 9})
		},
		"ErrorGroups": func(ctx context.Context) (any, error) {
			return r.reads.ErrorGroups(ctx, repository.GroupQuery{Limit: 9})
		},
		"ErrorGroup": func(ctx context.Context) (any, error) {
			return r.reads.ErrorGroup(ctx, group, nil, repository.Trend{})
		},
		"Arrivals": func(ctx context.Context) (any, error) {
			return r.reads.Arrivals(ctx, repository.ArrivalsQuery{Since: until.Add(-time.Hour), Until: until, Step: repository.ArrivalsMinute})
		},
		"TopicSummaries": func(ctx context.Context) (any, error) { return r.reads.TopicSummaries(ctx, repository.TopicQuery{}) },
		"Trail":          func(ctx context.Context) (any, error) { return r.reads.Trail(ctx, repository.TrailQuery{Limit: 9}) },
	}
	for name, read := range everyRead {
		var got, want any
		var err, wantErr error
		before := r.answers("replica")
		for range 3000 { // repeats the read until the replica has replayed the change with the mark
			got, err = read(repository.WithReading(t.Context(), mark))
			if r.answers("replica") > before {
				break
			}
			<-time.After(10 * time.Millisecond)
		}
		check.Equal(t, r.answers("replica"), before+1, "reads that the replica answered: "+name)
		want, wantErr = read(t.Context())
		check.True(t, reflect.DeepEqual(got, want) && err == nil && wantErr == nil, "%s of the replica = %+v, %v; of the database %+v, %v", name, got, err, want, wantErr)
	}
}

// TestReplicaThatDoesNotAnswer: the replica stops answering, but its connections stay open. The database answers a read
// that waits for the replica.
func TestReplicaThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	between := check.Must(proxy.Listen(proxy.Statements(func(string) string { return "statement" })))(t)
	t.Cleanup(func() { check.NoError(t, between.Close()) })
	between.To(r.standbyAddress())
	pendingMessages(t, r.Store, "orders.dlq", 2)
	registry := prometheus.NewRegistry()
	reads := r.follow(between.Addr(), time.Hour, registry)
	r.awaitReads(reads, registry, 2)

	between.Decide(func(string) proxy.Action { return proxy.BlackHole() })
	request, cancel := context.WithTimeout(repository.WithReading(t.Context(), ""), 20*time.Second) // shorter than database.read_timeout
	defer cancel()
	check.Equal(t, r.shown(reads, request), 2, "messages without an answer of the replica")
	between.Decide(nil)
	r.awaitReads(reads, registry, 2)
}

// TestExportThatAReplicaEnds: when the replica ends the statement of an export in order to replay changes, the database
// continues the export, so that each message is exported exactly once. An export for facets must be of one snapshot; it
// is not continued, but must be read again from the beginning.
func TestExportThatAReplicaEnds(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	ids := pendingMessages(t, r.Store, "orders.dlq", 300)
	exec(t, r.db.Pool, `UPDATE dlq.dlq_messages SET created_at = date_trunc('minute', created_at)`) // gives messages the same created_at, so that the order of an export also depends on their ids
	ids = append(ids, pendingMessages(t, r.Store, "orders.dlq", 300)...)
	mark := check.Must(r.reads.WriteMark(t.Context()))(t)
	check.Must(r.standby.ExecContext(t.Context(), `ALTER SYSTEM SET max_standby_streaming_delay = 0`))(t) // the replica then ends conflicting statements at once; by default it waits 30 s
	check.Must(r.standby.ExecContext(t.Context(), `SELECT pg_reload_conf()`))(t)
	export := func(ctx context.Context, q repository.ExportQuery) (exported []uuid.UUID, err error) {
		err = r.reads.Export(ctx, q, func(m *entity.Message) error {
			if exported = append(exported, m.ID); len(exported) == 1 {
				r.conflict()
			}
			return nil
		})
		return exported, err
	}
	for _, limit := range []int{1000, 550} {
		want := check.Must(export(t.Context(), repository.ExportQuery{Limit: limit}))(t)
		check.Len(t, want, min(limit, len(ids)), "messages of the database")
		r.awaitMark(mark)
		failed := r.answers("failed")
		got := check.Must(export(repository.WithReading(t.Context(), mark), repository.ExportQuery{Limit: limit}))(t)
		check.Equal(t, got, want, "exported messages")
		check.Equal(t, r.answers("failed"), failed+1, "reads that the replica did not finish")
	}
	r.awaitMark(mark)
	request := repository.WithReading(t.Context(), mark)
	_, err := export(request, repository.ExportQuery{Limit: 1000, OneSnapshot: true})
	check.Is(t, err, repository.ErrReadAgain, "an export of one snapshot")
	check.Len(t, check.Must(export(request, repository.ExportQuery{Limit: 1000, OneSnapshot: true}))(t), len(ids), "messages when it is read again")
}

// awaitMark repeats a search that carries the mark until the replica answers the search, which means that it has
// replayed the change with the mark.
func (r *replicated) awaitMark(mark string) {
	r.t.Helper()
	for range 3000 {
		request := repository.WithReading(r.t.Context(), mark)
		if r.shown(r.reads, request); !repository.ReadingOf(request).UsesPrimary() {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	r.t.Fatal("the replica never answered a read with the mark")
}

// conflict changes and vacuums the messages in the database, and waits until the replica has replayed this. To replay
// the vacuum, the replica ends its running statements that still need the removed row versions.
func (r *replicated) conflict() {
	r.t.Helper()
	exec(r.t, r.db.Pool, `UPDATE dlq.dlq_messages SET updated_at = now()`)
	exec(r.t, r.db.Pool, `VACUUM dlq.dlq_messages`)
	mark := check.Must(r.reads.WriteMark(r.t.Context()))(r.t)
	for range 3000 {
		var replayed bool
		if r.standby.GetContext(r.t.Context(), &replayed, `SELECT pg_last_wal_replay_lsn() >= $1::pg_lsn`, mark) == nil && replayed {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	r.t.Fatal("the replica never replayed the vacuum")
}

// TestNewErrorGroupOfAReplica: a notification may name an error group that the replica has not replayed yet. Reads find
// this error group in the database, and do not report it as missing.
func TestNewErrorGroupOfAReplica(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	pendingMessages(t, r.Store, "orders.dlq", 2)
	known := r.newGroup("orders.dlq")
	r.awaitMark(check.Must(r.reads.WriteMark(t.Context()))(t))
	r.pause()
	pendingMessages(t, r.Store, "payments.dlq", 1)
	fresh := r.newGroup("payments.dlq")
	read := func(group uuid.UUID) error {
		return check.Err(r.reads.ErrorGroup(repository.WithReading(t.Context(), ""), group, nil, repository.Trend{}))
	}
	before := r.answers("replica")
	check.NoError(t, read(known))
	check.Equal(t, r.answers("replica"), before+1, "reads that the replica answered")
	check.NoError(t, read(fresh))
	check.Equal(t, r.answers("behind"), 1.0, "reads of what the replica does not have")
	check.Is(t, read(uuid.New()), entity.ErrNotFound, "an error group that does not exist")
}

// newGroup stores an error group with the given title, assigns all messages without an error group to it, and returns
// its id.
func (r *replicated) newGroup(title string) uuid.UUID {
	r.t.Helper()
	group := entity.Fingerprint{Title: title}
	check.NoError(r.t, r.SaveFingerprints(r.t.Context(), []entity.Fingerprint{group}))
	exec(r.t, r.db.Pool, `UPDATE dlq.dlq_messages SET group_id = $1 WHERE group_id IS NULL`, group.ID())
	return group.ID()
}

// TestOneAgeInOneRequest: when the replica has answered one read of an HTTP request and cannot answer the next read,
// the answer to the request does not mix old data of the replica with newer data of the database.
func TestOneAgeInOneRequest(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	pendingMessages(t, r.Store, "orders.dlq", 2)
	r.awaitReplica(2)
	r.pause()
	pendingMessages(t, r.Store, "payments.dlq", 3)
	request := repository.WithReading(t.Context(), "")
	check.Equal(t, r.shown(r.reads, request), 2, "messages of the replica")
	check.NoError(t, r.servers.KillStandby())
	count := func() (repository.MatchCount, error) {
		return r.reads.CountMatching(request, repository.CountQuery{How: repository.CountExact})
	}
	check.Is(t, check.Err(count()), repository.ErrReadAgain, "the next part of the answer")
	check.Equal(t, r.shown(r.reads, request), 5, "messages when the request is read again")
	check.Equal(t, check.Must(count())(t).Messages, int64(5), "messages that are counted then")
}
