package postgres

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

func wantRecords(t *testing.T, db *sqlx.DB, when string, want int) {
	t.Helper()
	check.Same(t, postgrestest.Get[int](t, db, `SELECT count(*) FROM dlq.records`), want, "%s there are records", when)
}

// The bytes of a record stay in dlq.records when the message is archived or restored. They are deleted when the message
// is deleted or purged.
func TestRecordsFollowTheirMessages(t *testing.T) {
	db := freshDB(t)
	store := New(db)
	ids := pendingMessages(t, store, "orders.dlq", 4)
	wantRecords(t, db, "after storing", 4)
	exec(t, db, `UPDATE dlq.dlq_messages SET status = 'RESOLVED', updated_at = now() - interval '40 days', created_at = now() - interval '40 days'
		WHERE id = ANY ($1)`, codec.UUIDArray(ids[:2]))
	exec(t, db, `CALL dlq.archive_old_dlq_messages(30, 1000)`)
	wantRecords(t, db, "after archiving", 4)
	if m, err := store.GetArchived(t.Context(), ids[0], -1); err != nil || string(m.Record.Value) != `{"n": 0}` {
		t.Errorf("GetArchived = %q, %v, want the value", m.Record.Value, err)
	}
	check.NoError(t, check.Err(store.Restore(t.Context(), ids[0], entity.AuditInfo{Actor: "test"})))
	if m, err := store.Get(t.Context(), ids[0], -1); err != nil || string(m.Record.Value) != `{"n": 0}` {
		t.Errorf("Get = %q, %v, want the value of the restored message", m.Record.Value, err)
	}
	wantRecords(t, db, "after restoring", 4)
	check.NoError(t, store.Delete(t.Context(), ids[2], entity.AuditInfo{Actor: "test"}))
	wantRecords(t, db, "after deleting", 3)
	exec(t, db, `UPDATE dlq.dlq_messages_archive SET archived_at = archived_at - interval '1 minute'`)
	n, err := store.PurgeArchive(t.Context(), 0, 1000)
	check.True(t, n == 1 && err == nil, "PurgeArchive = %d, %v, want 1", n, err)
	wantRecords(t, db, "after purging", 2)
	exec(t, db, `TRUNCATE dlq.dlq_messages`)
	wantRecords(t, db, "after truncating", 0)
}

// A message that was inserted by SQL has the bytes of its record in its own row of dlq_messages. Load returns these
// bytes as well.
func TestRecordsInTheirMessages(t *testing.T) {
	db := freshDB(t)
	store := New(db)
	ids := pendingMessages(t, store, "orders.dlq", 2)
	exec(t, db, `INSERT INTO dlq.dlq_messages (id, original_topic, error_message, key, value, headers, dlq_topic_id)
		VALUES ('018f0000-0000-7000-8000-000000000001', 'orders', 'boom', 'k', 'by SQL', '\x00', 1)`)
	loaded, _, err := store.Load(t.Context(), append(ids, [16]byte{0x01, 0x8f, 6: 0x70, 8: 0x80, 15: 1}), 1<<20)
	if err != nil || len(loaded) != 3 || string(loaded[1].Record.Value) != `{"n": 1}` || string(loaded[2].Record.Value) != "by SQL" {
		t.Fatalf("Load = %+v, %v, want all three values", loaded, err)
	}
}

// TestOnlyBytesLieOutOfLine: PostgreSQL stores large columns out of line (in the TOAST table). After an attempt, which
// makes the message's row wider, it must still store only the record's bytes out of line; otherwise each later update
// and each list would be slower.
func TestOnlyBytesLieOutOfLine(t *testing.T) {
	db := freshDB(t)
	store := New(db)
	id, redrive := uuid.New(), uuid.New()
	exec(t, db, `INSERT INTO dlq.dlq_messages (id, original_topic, error_message, key, value, headers, error_class,
			consumer_group, dialect, origin_confidence, group_id, record_hash, created_at)
		VALUES ($1, 'orders.events.v1', repeat('the answer took long, ', 4), $2, $3, $4, 'java.lang.IllegalStateException',
			'orders-service', 'spring-dlt', 'header', gen_random_uuid(), 7, now())`,
		id, []byte(strings.Repeat("k", 32)), make([]byte, 3000), make([]byte, 600))
	texts := []string{}
	for _, c := range columnsOf(t, db, "dlq_messages") {
		switch c.Name {
		case "value", "headers", "payload":
		default:
			texts = append(texts, c.Name)
		}
	}
	inline := func(when string) {
		t.Helper()
		for _, column := range texts {
			out := postgrestest.Get[bool](t, db, `SELECT coalesce(bool_or(pg_column_toast_chunk_id(`+column+`) IS NOT NULL), false)
				FROM dlq.dlq_messages`)
			check.True(t, !out, "%s: %s lies out of line, want it in its row", when, column)
		}
		bytes := postgrestest.Get[int](t, db, `SELECT count(pg_column_toast_chunk_id(value)) + count(pg_column_toast_chunk_id(headers))
			FROM dlq.dlq_messages`)
		check.Same(t, bytes, 2, "%s: of value and headers lie out of line", when)
	}
	inline("stored")
	claim := repository.Claim{
		MessageID: id, ID: uuid.New(), RedriveID: redrive, Topic: "orders.events.v2", TopicID: "Zm9vYmFyYmF6cXV4cXV1eA", Partition: 3, EndOffset: 1 << 40,
	}
	taken := check.Must(store.Claim(t.Context(), []repository.Claim{claim}, repository.Claiming{Expiry: time.Minute}))(t)
	check.Require(t, len(taken) == 1, "Claim = %v, want the message", taken)
	inline("claimed")
	result := repository.Result{MessageID: id, ClaimID: claim.ID, Verdict: entity.Failed, Class: entity.BrokerUnavailable, Error: "no answer", Offset: -1}
	check.Len(t, check.Must(store.Finish(t.Context(), []repository.Result{result}, entity.By("alice")))(t), 1, "Finish")
	inline("finished")
}
