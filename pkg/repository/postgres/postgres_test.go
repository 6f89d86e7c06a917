package postgres

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
	"github.com/dlq-manager/dlq-manager/pkg/repository/repositorytest"
)

func TestMain(m *testing.M) {
	stacktest.Parallel(4) // on two idle cores, the tests without OpenSearch take 102 s; with two at a time, 129 s
	stacktest.Main(m)
}

// Short names of helpers that these tests use very often.
var (
	exec       = postgrestest.Exec
	freshDB    = postgrestest.Fresh
	begin      = postgrestest.Begin
	eventually = postgrestest.Eventually
)

// withDB runs a subtest like postgrestest.Parallel, with a database that only this subtest uses.
func withDB(t *testing.T, name string, test func(t *testing.T, db *sqlx.DB)) {
	t.Helper()
	postgrestest.Parallel(t, name, func(t *testing.T) { test(t, postgrestest.Open(t)) })
}

// atOnce calls the function do n times at the same time, and ends the test when one call fails.
func atOnce(t testing.TB, n int, do func(i int) error) {
	t.Helper()
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = do(i) })
	}
	all.Wait()
	check.NoError(t, errors.Join(errs...))
}

// TestRepository runs repositorytest, the tests that every store must pass. The store signs in with a role like that of
// the programs, which has only the rights of dlq_rw.
func TestRepository(t *testing.T) {
	t.Parallel()
	role := login(t, "dlq_rw")
	repositorytest.Run(t, func(t *testing.T, clock *repositorytest.Clock) repositorytest.Fixture {
		at := postgrestest.URL(t)
		admin := check.Must(sqlx.Connect("postgres", at))(t)
		t.Cleanup(func() { _ = admin.Close() })
		cfg := configOf(t, at)
		cfg.User, cfg.Password, cfg.MaxOpenConns = role, "p", 12
		return repositorytest.Fixture{
			Repository: New(openConfig(t, cfg), WithClock(clock.Now)),
			Insert:     func(t *testing.T, m entity.Message) { insert(t, admin, m) },
			Archive:    func(t *testing.T, id uuid.UUID) { archive(t, admin, id) },
		}
	})
}

// insert inserts a message with most of its fields by plain SQL, without the store.
func insert(t *testing.T, db *sqlx.DB, m entity.Message) {
	t.Helper()
	if !m.Source.Known() {
		insertTenColumns(t, db, m)
		return
	}
	_, err := db.Exec(`
		INSERT INTO dlq.dlq_messages (id, original_topic, error_message, retry_count, max_retries, status,
			created_at, updated_at, last_retry_at, key, value, headers, omitted_size, omitted_sha256,
			dlq_topic_id, dlq_incarnation_id, dlq_partition, dlq_offset, dlq_timestamp,
			original_partition, original_offset, original_timestamp, origin_confidence,
			consumer_group, consumer_attempts, dialect, error_class, parent_id, root_id,
			claim_id, claim_expires_at, claim_topic, claim_partition, claim_end_offset,
			next_attempt_at, last_publish_error, last_publish_error_class, outcome, group_id, defect)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20,
			$21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37, $38, $39, $40::jsonb)`,
		m.ID, m.OriginalTopic, m.ErrorMessage, m.RetryCount, m.MaxRetries, string(m.Status),
		entity.TruncateTime(m.CreatedAt), entity.TruncateTime(m.UpdatedAt), when(m.LastRetryAt),
		bytesArg(m.Record.Key), bytesArg(m.Record.Value), codec.PackHeaders(m.Record.Headers),
		orNull(m.Record.Size, m.Record.State == entity.ValueOverLimit), bytesArg(m.Record.SHA256),
		m.Source.TopicID, m.Source.Incarnation, m.Source.Partition, m.Source.Offset, when(m.Source.Timestamp),
		m.Origin.Partition, m.Origin.Offset, when(m.Origin.Timestamp), word(string(m.Origin.Confidence)),
		word(m.Failure.ConsumerGroup), m.Failure.Attempts, word(m.Failure.Dialect), word(m.Failure.Class),
		orNull(m.Parent, m.Parent != [16]byte{}), orNull(m.Root, m.Root != [16]byte{}),
		orNull(m.Claim.ID, m.Claim.ID != [16]byte{}), when(m.Claim.ExpiresAt), word(m.Claim.Topic),
		m.Claim.Partition, m.Claim.EndOffset,
		when(m.NextAttemptAt), word(m.LastPublishError), word(string(m.LastPublishErrorClass)), word(string(m.Outcome)),
		orNull(m.Group, m.Group != [16]byte{}), word(string(codec.DefectOf(&m.Record))))
	check.Require(t, err == nil, "insert message: %v", err)
}

// archive moves a message to the archive by SQL, without changing any column.
func archive(t *testing.T, db *sqlx.DB, id uuid.UUID) {
	t.Helper()
	var names []string
	for _, c := range columnsOf(t, db, "dlq_messages") {
		names = append(names, c.Name)
	}
	columns := strings.Join(names, ", ")
	exec(t, db, `WITH moved AS (DELETE FROM dlq.dlq_messages WHERE id = $1 RETURNING *)
		INSERT INTO dlq.dlq_messages_archive (`+columns+`) SELECT `+columns+` FROM moved`, id)
}

// insertTenColumns inserts a message by SQL, like a user who knows only the ten columns that the documentation
// guarantees.
func insertTenColumns(t *testing.T, db *sqlx.DB, m entity.Message) {
	t.Helper()
	_, err := db.Exec(`
		INSERT INTO dlq.dlq_messages (id, original_topic, error_message, retry_count, max_retries, payload, status,
			created_at, updated_at, last_retry_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		m.ID, m.OriginalTopic, m.ErrorMessage, m.RetryCount, m.MaxRetries,
		orNull(string(m.Record.Value), m.Record.Value != nil), string(m.Status),
		entity.TruncateTime(m.CreatedAt), entity.TruncateTime(m.UpdatedAt), when(m.LastRetryAt))
	check.Require(t, err == nil, "insert message: %v", err)
}

func when(t time.Time) any { return orNull(entity.TruncateTime(t), !t.IsZero()) }

func word(s string) any { return orNull(s, s != "") }

func bytesArg(b []byte) any { return orNull(b, b != nil) }

func orNull[T any](v T, present bool) any {
	if !present {
		return nil
	}
	return v
}
