package integration_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/integration/stack"
	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// TestReplica: while the replica of the database lags a little, the API's lists may show its older state, but a user
// who has just changed something sees the change. When the replica lags too much or is down, the lists come from the
// database.
func TestReplica(t *testing.T) {
	t.Parallel()
	own := ownStack(t, stack.Options{Postgres: true, Standby: true})
	standby := check.Must(sqlx.Open("postgres", own.StandbyURL()))(t)
	t.Cleanup(func() { _ = standby.Close() })
	l := newLetters(newSystemOn(t, stacktest.Kafka(t), migrated(t, own.DatabaseURL())))
	l.startReady("ingester")
	l.produce(20, nil)
	at := check.Must(url.Parse(own.StandbyURL()))(t)
	api := l.startReady("api", "DLQ_DATABASE_READ_HOST="+at.Host)

	send := func(method, path, mark string) (body, next string) {
		t.Helper()
		r := check.Must(http.NewRequestWithContext(t.Context(), method, api.url+path, http.NoBody))(t)
		if mark != "" {
			r.Header.Set("DLQ-Read-After", mark)
		}
		res, err := http.DefaultClient.Do(r)
		check.NoError(t, err)
		defer func() { _ = res.Body.Close() }()
		body = string(check.Must(io.ReadAll(res.Body))(t))
		check.Require(t, res.StatusCode == http.StatusOK, "%s %s = %d %s", method, path, res.StatusCode, body)
		return body, res.Header.Get("DLQ-Read-After")
	}
	get := func(path, mark string) string {
		t.Helper()
		body, _ := send(http.MethodGet, path, mark)
		return body
	}
	shown := func(status, mark string) int {
		t.Helper()
		return strings.Count(get("/api/v1/messages?status="+status, mark), `"original_topic"`)
	}
	answers := func(by string) string {
		t.Helper()
		_, after, _ := strings.Cut(get("/metrics", ""), fmt.Sprintf("dlq_replica_reads_total{answer=%q} ", by))
		number, _, _ := strings.Cut(after, "\n")
		return number
	}
	eventually(t, "the replica shows all messages", func() bool {
		before := answers("replica")
		return shown("PENDING", "") == 20 && answers("replica") != before
	})

	eventually(t, "the replica counts facets", func() bool {
		before := answers("replica")
		return strings.Contains(get("/api/v1/messages/facets?by=topic", ""), `"matched":{"messages":20,`) && answers("replica") != before
	})

	check.Must(standby.ExecContext(t.Context(), `SELECT pg_wal_replay_pause()`))(t)
	var id string
	check.NoError(t, l.db.Get(&id, `SELECT id FROM dlq.dlq_messages LIMIT 1`))
	_, mark := send(http.MethodPost, "/api/v1/dlq/messages/"+id+"/dead", "")
	before := answers("replica")
	dead := shown("DEAD", "")
	check.Equal(t, dead == 0, answers("replica") != before, "the replica shows dead messages, or the database none")
	before = answers("replica")
	check.Equal(t, shown("DEAD", mark), 1, "dead messages that the user sees who made one dead")
	check.Equal(t, answers("replica"), before, "reads with the mark that the replica answered")
	eventually(t, "the replica is not read while its data is older than read_max_lag", func() bool { return shown("DEAD", "") == 1 })
	check.True(t, strings.Contains(get("/api/v1/dlq/messages/"+id, ""), `"DEAD"`), "a single message comes from the replica")

	check.Must(standby.ExecContext(t.Context(), `SELECT pg_wal_replay_resume()`))(t)
	eventually(t, "the replica shows the change", func() bool { return shown("DEAD", "") == 1 })
	check.NoError(t, own.KillStandby())
	check.Equal(t, shown("DEAD", ""), 1, "dead messages without the replica")
	check.NoError(t, own.StartStandby(t.Context()))
	before = answers("replica")
	eventually(t, "the replica answers again", func() bool { return shown("DEAD", "") == 1 && answers("replica") != before })
}
