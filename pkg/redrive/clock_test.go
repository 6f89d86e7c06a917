package redrive_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/internal/test/stores"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/redrive"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// outside is a store on PostgreSQL for a process that runs in a synctest bubble and so has a wrong clock. The store
// itself has the right time, because a goroutine outside the bubble makes the calls of the methods below.
type outside struct {
	*postgres.Store
	lost  bool // calls that store the results of attempts fail
	calls chan func()
	over  chan struct{}
}

func newOutside(t *testing.T, store *postgres.Store) *outside {
	o := &outside{Store: store, calls: make(chan func()), over: make(chan struct{})}
	go func() {
		for call := range o.calls {
			call()
			o.over <- struct{}{}
		}
	}()
	t.Cleanup(func() { close(o.calls) })
	return o
}

func (o *outside) do(call func(ctx context.Context)) {
	o.calls <- func() { call(context.Background()) }
	<-o.over
}

func (o *outside) Get(_ context.Context, id uuid.UUID, maxValue int64) (m entity.Message, err error) {
	o.do(func(ctx context.Context) { m, err = o.Store.Get(ctx, id, maxValue) })
	return m, err
}

func (o *outside) Load(_ context.Context, ids []uuid.UUID, maxBytes int64) (found []entity.Message, taken int, err error) {
	o.do(func(ctx context.Context) { found, taken, err = o.Store.Load(ctx, ids, maxBytes) })
	return found, taken, err
}

func (o *outside) Claim(_ context.Context, claims []repository.Claim, how repository.Claiming) (taken []entity.Message, err error) {
	o.do(func(ctx context.Context) { taken, err = o.Store.Claim(ctx, claims, how) })
	return taken, err
}

func (o *outside) Finish(_ context.Context, results []repository.Result, cause entity.AuditInfo) (ended []repository.Finished, err error) {
	if o.lost {
		return nil, errors.New("lost on purpose")
	}
	o.do(func(ctx context.Context) { ended, err = o.Store.Finish(ctx, results, cause) })
	return ended, err
}

func (o *outside) Expired(_ context.Context, q repository.ExpiredQuery) (found []entity.Message, err error) {
	o.do(func(ctx context.Context) { found, err = o.Store.Expired(ctx, q) })
	return found, err
}

// accepting is a publisher that plans and accepts every message.
type accepting struct{}

func (accepting) Plan(_ context.Context, batch []entity.Outgoing, _ bool) []entity.Target {
	targets := make([]entity.Target, len(batch))
	for i, out := range batch {
		targets[i] = entity.Target{Topic: out.Message.OriginalTopic}
	}
	return targets
}

func (accepting) Publish(ctx context.Context, batch []entity.Outgoing) []entity.Delivery {
	deliveries := make([]entity.Delivery, len(batch))
	for i := range batch {
		deliveries[i] = entity.Delivery{Verdict: entity.Acknowledged}
		if ctx.Err() != nil {
			deliveries[i] = entity.Delivery{Verdict: entity.GivenBack, Offset: -1}
		}
	}
	return deliveries
}

func (accepting) FindMany(_ context.Context, claims []entity.Claim) []entity.Delivery {
	findings := make([]entity.Delivery, len(claims))
	for i := range claims {
		findings[i] = entity.Delivery{Verdict: entity.Acknowledged, Class: entity.AlreadyPublished}
	}
	return findings
}

// TestReplicaWithAWrongClock: the clock of one process is decades slow or fast. Its claims are valid, and no process
// treats a valid claim as expired, because the database's clock decides.
func TestReplicaWithAWrongClock(t *testing.T) {
	const year = 365 * 24 * time.Hour
	// A synctest bubble's clock begins in the year 2000, and time.After moves it without real waiting.
	t.Run("Behind", func(t *testing.T) { replicaWithClock(t, 0) })
	t.Run("Ahead", func(t *testing.T) { replicaWithClock(t, 100*year) })
}

// replicaWithClock runs a process whose clock shows the year 2000 plus added.
func replicaWithClock(t *testing.T, added time.Duration) {
	db := postgrestest.Open(t)
	store := newOutside(t, postgres.New(db))
	right := redrive.New(redrive.DefaultConfig(), stores.Fill[redrive.Stores](postgres.New(db)), accepting{}, prometheus.NewRegistry(), zap.NewNop())
	first, second := addByHand(t, db), addByHand(t, db)

	synctest.Test(t, func(t *testing.T) {
		<-time.After(added) // moves the clock of the bubble forward
		if off := time.Since(rightTime(t, store, db)); off.Abs() < time.Hour || (off > 0) != (added > 0) {
			t.Fatalf("the clock in the bubble is off by %s, want years: the test proves nothing", off)
		}
		wrong := redrive.New(redrive.DefaultConfig(), stores.Fill[redrive.Stores](store), accepting{}, prometheus.NewRegistry(), zap.NewNop())
		check.Must(wrong.Retry(t.Context(), entity.RetryOrder{ID: first, Cause: entity.By("alice")}))(t)
		store.lost = true
		_, err := wrong.Retry(t.Context(), entity.RetryOrder{ID: second, Cause: entity.By("alice")})
		check.True(t, err != nil, "Retry whose result is lost = nil, want an error")
		store.lost = false
		check.Equal(t, wrong.Settle(t.Context()), nil, "Settle")
	})
	wantRow(t, db, first, "RESOLVED", "last_retry_at BETWEEN now() - interval '5 minutes' AND now()")
	wantRow(t, db, second, "RETRYING", "claim_expires_at BETWEEN last_retry_at AND now() + interval '30 seconds'")
	if _, err := db.Exec(`UPDATE dlq.dlq_messages SET claim_expires_at = now() + interval '1 hour' WHERE id = $1`, second); err != nil {
		t.Fatal(err) // the claim gets an expiry in an hour, because on a slow machine its own expiry may be over
	}
	check.Equal(t, right.Settle(t.Context()), nil, "Settle")
	wantRow(t, db, second, "RETRYING", "true")

	check.Must(db.Exec(`UPDATE dlq.dlq_messages SET claim_expires_at = now() WHERE id = $1`, second))(t)
	synctest.Test(t, func(t *testing.T) {
		<-time.After(added)
		wrong := redrive.New(redrive.DefaultConfig(), stores.Fill[redrive.Stores](store), accepting{}, prometheus.NewRegistry(), zap.NewNop())
		check.Equal(t, wrong.Settle(t.Context()), nil, "Settle")
	})
	wantRow(t, db, second, "RESOLVED", "true")
}

func rightTime(t *testing.T, o *outside, db *sqlx.DB) (now time.Time) {
	t.Helper()
	var err error
	o.do(func(context.Context) { err = db.Get(&now, `SELECT now()`) })
	check.NoError(t, err)
	return now
}

func addByHand(t *testing.T, db *sqlx.DB) (id uuid.UUID) {
	t.Helper()
	err := db.Get(&id, `INSERT INTO dlq.dlq_messages (original_topic, error_message, payload) VALUES ('orders', 'boom', '{}') RETURNING id`)
	check.NoError(t, err)
	return id
}

func wantRow(t *testing.T, db *sqlx.DB, id uuid.UUID, status, also string) {
	t.Helper()
	var found []struct {
		Status string
		OK     bool
	}
	err := db.Select(&found, `SELECT status, `+also+` AS ok FROM dlq.dlq_messages WHERE id = $1`, id)
	check.Require(t, err == nil && len(found) == 1, "message %s: %v, %v", id, found, err)
	check.True(t, found[0].Status == status && found[0].OK,
		"message is %s and %s is %t, want %s and true", found[0].Status, also, found[0].OK, status)
}
