package postgres

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// TestOnlyBytesLieOutOfLine: what an attempt writes makes its row wider, and still
// nothing but the record's bytes is moved out of it, which each later update and
// each list would pay for.
func TestOnlyBytesLieOutOfLine(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
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
			var out bool
			wantNil(t, db.Get(&out, `SELECT coalesce(bool_or(pg_column_toast_chunk_id(`+column+`) IS NOT NULL), false)
				FROM dlq.dlq_messages`))
			if out {
				t.Errorf("%s: %s lies out of line, want it in its row", when, column)
			}
		}
		var bytes int
		wantNil(t, db.Get(&bytes, `SELECT count(pg_column_toast_chunk_id(value)) + count(pg_column_toast_chunk_id(headers))
			FROM dlq.dlq_messages`))
		if bytes != 2 {
			t.Errorf("%s: %d of value and headers lie out of line, want both", when, bytes)
		}
	}
	inline("stored")
	claim := repository.Claim{
		MessageID: id, ID: uuid.New(), RedriveID: redrive, Topic: "orders.events.v2", TopicID: "Zm9vYmFyYmF6cXV4cXV1eA", Partition: 3, EndOffset: 1 << 40,
	}
	if taken, err := store.Claim(t.Context(), []repository.Claim{claim}, repository.Claiming{Expiry: time.Minute}); err != nil || len(taken) != 1 {
		t.Fatalf("Claim = %v, %v, want the message", taken, err)
	}
	inline("claimed")
	result := repository.Result{MessageID: id, ClaimID: claim.ID, Verdict: entity.Failed, Class: entity.BrokerUnavailable, Error: "no answer", Offset: -1}
	if ended, err := store.Finish(t.Context(), []repository.Result{result}, entity.By("alice")); err != nil || len(ended) != 1 {
		t.Fatalf("Finish = %v, %v, want one", ended, err)
	}
	inline("finished")
}
