package replica

import (
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/integration/stack"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/migrate"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/insight"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/search"
	"github.com/dlq-manager/dlq-manager/pkg/secret"
)

// TestEachConnectionAsksItsServer: the calls of look reach a replica that has replayed everything, and the connections
// of reads reach another replica, which is behind or on another timeline. The reads are answered by the database.
func TestEachConnectionAsksItsServer(t *testing.T) {
	t.Parallel()
	servers := check.Must(stack.Start(t.Context(), stack.Options{Postgres: true, Standby: true, Own: true, Fast: true}))(t)
	t.Cleanup(func() { check.NoError(t, servers.Stop()) })
	open := func(url string) *sqlx.DB {
		pool := check.Must(sqlx.Open("postgres", url+"&binary_parameters=yes"))(t)
		t.Cleanup(func() { _ = pool.Close() })
		return pool
	}
	pool, standby := open(servers.DatabaseURL()), open(servers.StandbyURL())
	check.NoError(t, migrate.Up(t.Context(), pool.DB))
	db := conn.New(pool, nil)
	r := check.Must(New(Readers{Audit: insight.NewAudit(db, insight.NewGroups(db))}, db, search.NewScopes(db), configOf(t, servers.StandbyURL()),
		time.Hour, prometheus.NewRegistry(), zap.NewNop()))(t)
	t.Cleanup(func() { check.NoError(t, r.Close()) })
	looked := &at{Position: check.Must(db.Written(t.Context()))(t)}
	r.follower.replica = looked
	r.follower.maxLag = time.Nanosecond // so that a server must have replayed all that the database had written at the last call of look
	change := func() {
		check.Must(pool.ExecContext(t.Context(), `INSERT INTO dlq.audit (at, action, kind, object_id, actor) VALUES (now(), 'x', 'message', $1, 'alice')`, uuid.New()))(t)
		looked.Position = check.Must(db.Written(t.Context()))(t)
		now := time.Now()
		r.follower.now = func() time.Time { return now }
		check.NoError(t, r.follower.look(t.Context()))
	}
	shown := func() int {
		return len(check.Must(r.Trail(repository.WithReading(t.Context(), ""), repository.TrailQuery{Limit: 9}))(t))
	}
	answers := func(by string) float64 { return testutil.ToFloat64(r.follower.reads.WithLabelValues(by)) }

	change()
	for range 3000 {
		if shown(); answers(byReplica) > 0 {
			break
		}
		<-time.After(10 * time.Millisecond)
	}
	check.Equal(t, shown(), 1, "entries when both servers are fresh")
	check.True(t, answers(byReplica) > 1, "the replica answers no read")
	check.Must(standby.ExecContext(t.Context(), `SELECT pg_wal_replay_pause()`))(t)
	change()
	before := answers(isLate)
	check.Equal(t, shown(), 2, "entries when the server of the connection is behind")
	check.Equal(t, answers(isLate), before+1, "reads that were late")

	check.Must(standby.ExecContext(t.Context(), `SELECT pg_wal_replay_resume()`))(t)
	other := check.Must(db.Written(t.Context()))(t)
	other.Timeline++
	r.follower.primary, looked.Position = &at{Position: other}, other
	check.NoError(t, r.follower.look(t.Context()))
	replicated := answers(byReplica)
	check.Equal(t, shown(), 2, "entries when the server of the connection is on another timeline")
	check.Equal(t, answers(byReplica), replicated, "reads that the server on another timeline answered")
}

func configOf(t *testing.T, server string) conn.Config {
	t.Helper()
	at := check.Must(url.Parse(server))(t)
	cfg := conn.DefaultConfig()
	cfg.Host, cfg.User, cfg.Name = at.Hostname(), at.User.Username(), at.Path[1:]
	cfg.Port = check.Must(strconv.Atoi(at.Port()))(t)
	password, _ := at.User.Password()
	cfg.Password = secret.Text(password)
	return cfg
}
