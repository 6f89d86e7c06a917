package postgres

import (
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

func wantRecords(t *testing.T, db *sqlx.DB, when string, want int) {
	t.Helper()
	var n int
	wantNil(t, db.Get(&n, `SELECT count(*) FROM dlq.records`))
	if n != want {
		t.Errorf("%s there are %d records, want %d", when, n, want)
	}
}

// The bytes of a record are written once: they stay where they are while the message is
// archived and restored, and go when it is deleted or purged.
func TestRecordsFollowTheirMessages(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	store := New(db)
	ids := pendingMessages(t, store, "orders.dlq", 4)
	wantRecords(t, db, "after storing", 4)
	exec(t, db, `UPDATE dlq.dlq_messages SET status = 'RESOLVED', updated_at = now() - interval '40 days', created_at = now() - interval '40 days'
		WHERE id = ANY ($1)`, uuids(ids[:2]))
	exec(t, db, `CALL dlq.archive_old_dlq_messages(30, 1000)`)
	wantRecords(t, db, "after archiving", 4)
	if m, err := store.GetArchived(t.Context(), ids[0], -1); err != nil || string(m.Record.Value) != `{"n": 0}` {
		t.Errorf("GetArchived = %q, %v, want the value", m.Record.Value, err)
	}
	_, err := store.Restore(t.Context(), ids[0], entity.Cause{Actor: "test"})
	wantNil(t, err)
	if m, err := store.Get(t.Context(), ids[0], -1); err != nil || string(m.Record.Value) != `{"n": 0}` {
		t.Errorf("Get = %q, %v, want the value of the restored message", m.Record.Value, err)
	}
	wantRecords(t, db, "after restoring", 4)
	wantNil(t, store.Delete(t.Context(), ids[2], entity.Cause{Actor: "test"}))
	wantRecords(t, db, "after deleting", 3)
	exec(t, db, `UPDATE dlq.dlq_messages_archive SET archived_at = archived_at - interval '1 minute'`)
	n, err := store.PurgeArchive(t.Context(), 0, 1000)
	if n != 1 || err != nil {
		t.Errorf("PurgeArchive = %d, %v, want 1", n, err)
	}
	wantRecords(t, db, "after purging", 2)
	exec(t, db, `TRUNCATE dlq.dlq_messages`)
	wantRecords(t, db, "after truncating", 0)
}

// Messages that were put in by SQL have their bytes in their own row.
func TestRecordsInTheirMessages(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	store := New(db)
	ids := pendingMessages(t, store, "orders.dlq", 2)
	exec(t, db, `INSERT INTO dlq.dlq_messages (id, original_topic, error_message, key, value, headers, dlq_topic_id)
		VALUES ('018f0000-0000-7000-8000-000000000001', 'orders', 'boom', 'k', 'by SQL', '\x00', 1)`)
	loaded, _, err := store.Load(t.Context(), append(ids, [16]byte{0x01, 0x8f, 6: 0x70, 8: 0x80, 15: 1}), 1<<20)
	if err != nil || len(loaded) != 3 || string(loaded[1].Record.Value) != `{"n": 1}` || string(loaded[2].Record.Value) != "by SQL" {
		t.Fatalf("Load = %+v, %v, want all three values", loaded, err)
	}
}
