package postgres

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/integration/stack"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/migrate"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// replicated is a store on a database with a streaming replica.
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
	r.reads = r.follow(time.Hour)
	return r
}

// follow returns running Reads that use the replica while its data are not older than maxLag.
func (r *replicated) follow(maxLag time.Duration) *Reads {
	r.t.Helper()
	registry := prometheus.NewRegistry()
	if maxLag == time.Hour {
		registry = r.registry
	}
	reads := r.NewReads(r.standby, maxLag, registry, zap.NewNop())
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); reads.Run(ctx) }()
	r.t.Cleanup(func() { stop(); <-ended })
	return reads
}

// shown returns the number of messages that a search through reads finds.
func (r *replicated) shown(reads *Reads, ctx context.Context) int {
	r.t.Helper()
	page := check.Must(reads.Search(ctx, repository.SearchQuery{Limit: 100}))(r.t)
	return len(page.Messages)
}

// answers returns the number of reads that were counted with this value of the label answer.
func (r *replicated) answers(answer string) (n float64) {
	r.t.Helper()
	for _, family := range check.Must(r.registry.Gather())(r.t) {
		for _, m := range family.Metric {
			if family.GetName() == "dlq_replica_reads_total" && m.Label[0].GetValue() == answer {
				n = m.Counter.GetValue()
			}
		}
	}
	return n
}

// awaitReplica waits until a search on the replica finds n messages.
func (r *replicated) awaitReplica(n int) {
	r.t.Helper()
	for range 3000 {
		before := r.answers("replica")
		if r.shown(r.reads, repository.WithReading(r.t.Context(), "")) == n && r.answers("replica") > before {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	r.t.Fatalf("the replica never answered with %d messages", n)
}

// TestReadsOfAReplica: the replica answers a read only when its data are not too old and contain the caller's own
// changes; otherwise the database answers.
func TestReadsOfAReplica(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	late := r.follow(0)
	pendingMessages(t, r.Store, "orders.dlq", 2)
	r.awaitReplica(2)

	check.Must(r.standby.ExecContext(t.Context(), `SELECT pg_wal_replay_pause()`))(t)
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

	check.NoError(t, r.servers.KillStandby())
	check.Equal(t, r.shown(r.reads, repository.WithReading(t.Context(), "")), 5, "messages without the replica")
	check.Equal(t, r.answers("failed"), 1.0, "reads that the replica failed to answer")
	pendingMessages(t, r.Store, "refunds.dlq", 1)
	check.NoError(t, r.servers.StartStandby(t.Context()))
	r.awaitReplica(6)
	check.True(t, r.reads.CheckMark("16/zz") != nil && r.reads.CheckMark(mark) == nil, "CheckMark")
}

// TestEveryReadOfAReplica: the replica can answer every read, and gives the same answers as the database.
func TestEveryReadOfAReplica(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	ids := pendingMessages(t, r.Store, "orders.dlq", 3)
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
			return r.reads.ErrorGroup(ctx, entity.Unclassified("orders.dlq").ID(), nil, repository.Trend{})
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
		for range 3000 { // waits until the replica has replayed the change with the mark
			got, err = read(repository.WithReading(t.Context(), mark))
			if r.answers("replica") > before {
				break
			}
			<-time.After(10 * time.Millisecond)
		}
		check.Equal(t, r.answers("replica"), before+1, "reads that the replica answered: "+name)
		want, wantErr = read(t.Context())
		check.True(t, reflect.DeepEqual(got, want) && (err == nil) == (wantErr == nil), "%s of the replica = %+v, %v; of the database %+v, %v", name, got, err, want, wantErr)
	}
}
