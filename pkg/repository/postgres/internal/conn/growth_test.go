package conn_test

import (
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/messages"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// TestPlansFollowGrowth: reading a page of messages reads few rows although the statement was prepared when the tables
// were empty, and PostgreSQL has not analyzed the tables since then.
func TestPlansFollowGrowth(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	db.SetMaxOpenConns(1) // each connection has its own plans and statistics
	for _, table := range []string{"dlq.dlq_messages", "dlq.records"} {
		postgrestest.Exec(t, db, `ALTER TABLE `+table+` SET (autovacuum_enabled = off)`)
		postgrestest.Exec(t, db, `VACUUM ANALYZE `+table)
	}
	pool := conn.New(db, nil)
	store := messages.New(pool)
	list := func(times, want int) (read int64) {
		t.Helper()
		for range times {
			page, err := store.List(t.Context(), "flood", repository.Page{Number: 1, Size: 20})
			check.NoError(t, err)
			if len(page.Messages) != want {
				t.Fatalf("List = %d messages, want %d", len(page.Messages), want)
			}
		}
		postgrestest.Exec(t, db, `SELECT pg_stat_force_next_flush()`)
		check.NoError(t, db.Get(&read, `SELECT seq_tup_read + coalesce(idx_tup_fetch, 0) FROM pg_stat_user_tables WHERE relid = 'dlq.records'::regclass`))
		return read
	}
	pool.RenewPlans(t.Context())
	before := list(10, 0) // ten executions are enough for PostgreSQL to switch to the generic plan
	postgrestest.Exec(t, db, `INSERT INTO dlq.dlq_messages (original_topic, error_message) SELECT 'flood', 'boom' FROM generate_series(1, 10000)`)
	postgrestest.Exec(t, db, `INSERT INTO dlq.records (message_id, value, headers) SELECT id, convert_to(repeat(id::text, 20), 'UTF8'), '\x00' FROM dlq.dlq_messages`)
	pool.RenewPlans(t.Context())
	if read := list(10, 20) - before; read > 10*20 {
		t.Errorf("10 pages of 20 messages read %d records, want 200", read)
	}
}
