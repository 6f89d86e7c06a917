package messages

import (
	"context"
	"database/sql"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
)

// AutoSends implements repository.AutoSends.
type AutoSends struct{ db *conn.DB }

// NewAutoSends returns AutoSends that send their statements to db.
func NewAutoSends(db *conn.DB) *AutoSends { return &AutoSends{db} }

// watchAutoQuery reads at most $6 rows of each topic, each with its message and attempt; without OFFSET 0, PostgreSQL
// may read all messages and attempts instead. It deletes rows of the topics that are too old to count, and skips those
// that SaveAutoSends is changing. $2 is the present time, or NULL to use the database's clock; the other times are in
// microseconds.
var watchAutoQuery = `
	WITH clock AS (
		SELECT coalesce($2::timestamptz, now()) AS now
	), leased AS (
		INSERT INTO dlq.auto_topics AS t (topic, owner, lease_expires_at)
		SELECT DISTINCT topic, $3::uuid, now + $4::bigint * interval '1 microsecond'
		FROM clock, unnest($1::text[]) AS topic ORDER BY topic
		ON CONFLICT (topic) DO UPDATE SET owner = excluded.owner, lease_expires_at = excluded.lease_expires_at
		WHERE t.owner IS NULL OR t.owner = excluded.owner OR t.lease_expires_at <= coalesce($2::timestamptz, now())
		RETURNING topic, paused_until, pause_reason
	), gone AS (
		DELETE FROM dlq.auto_sends WHERE message_id = ANY (ARRAY(
			SELECT s.message_id FROM clock, leased l CROSS JOIN LATERAL (
				SELECT message_id FROM dlq.auto_sends
				WHERE topic = l.topic AND sent_at <= now - $5::bigint * interval '1 microsecond'
				ORDER BY sent_at LIMIT 1000 FOR UPDATE SKIP LOCKED
			) s))
	)
	SELECT l.topic, l.paused_until, coalesce(l.pause_reason, '') AS pause_reason, n.sent, n.known, n.returned
	FROM clock, leased l CROSS JOIN LATERAL (
		SELECT count(*) AS sent, count(*) FILTER (WHERE m.outcome = 'returned') AS returned,
			count(*) FILTER (WHERE m.outcome = 'returned' OR seen.consumed_group IS NOT NULL
				OR a.ended_at <= now - $7::bigint * interval '1 microsecond' AND 0 = (
					SELECT count(*) FROM (` + codec.GroupsOf("a.target_topic", "coalesce(m.consumer_group, '')", "a.target_topic <> m.original_topic") + `
					) g
					WHERE (SELECT max(c.committed) FROM dlq.committed_offsets c WHERE c.consumer_group = g.consumer_group AND c.topic = a.target_topic) IS NOT NULL
				)) AS known
		FROM (
			SELECT message_id, attempt_id FROM dlq.auto_sends
			WHERE topic = l.topic AND sent_at > greatest(now - $5::bigint * interval '1 microsecond', l.paused_until)
			ORDER BY sent_at DESC LIMIT $6
		) s
		CROSS JOIN LATERAL (
			SELECT id, status, outcome, original_topic, consumer_group, claim_id, attempt_no, dlq_topic_id
			FROM dlq.dlq_messages WHERE id = s.message_id OFFSET 0
		) m
		LEFT JOIN LATERAL (
			SELECT to_status, ended_at, target_topic FROM dlq.attempts
			WHERE message_id = s.message_id AND attempt_id = s.attempt_id OFFSET 0
		) a ON true` + codec.ConsumptionOf + `
		WHERE m.claim_id = s.attempt_id OR a.to_status = 'RESOLVED'
	) n`

// WatchAuto implements repository.AutoSends.
func (s *AutoSends) WatchAuto(ctx context.Context, owner uuid.UUID, topics []string, lease time.Duration) ([]repository.AutoTopic, error) {
	var found []struct {
		Topic    string       `db:"topic"`
		Until    sql.NullTime `db:"paused_until"`
		Reason   string       `db:"pause_reason"`
		Sent     int          `db:"sent"`
		Known    int          `db:"known"`
		Returned int          `db:"returned"`
	}
	if err := s.db.Select(ctx, &found, watchAutoQuery, codec.TextArray(topics), s.db.Clock(), owner, lease.Microseconds(),
		repository.AutoWindow.Microseconds(), repository.MaxAutoSends, entity.DefaultCanaryWait.Microseconds()); err != nil {
		return nil, conn.Translate("count automatic retries", err)
	}
	counted := make([]repository.AutoTopic, len(found))
	for i, f := range found {
		counted[i] = repository.AutoTopic{
			Topic: f.Topic, Pause: entity.AutoPause{Until: codec.TimeOf(f.Until), Reason: f.Reason},
			Sent: f.Sent, Known: f.Known, Returned: f.Returned,
		}
	}
	return counted, nil
}

const saveAutoSendsQuery = `
	INSERT INTO dlq.auto_sends (message_id, attempt_id, topic, sent_at)
	SELECT message_id, attempt_id, topic, coalesce($4::timestamptz, now())
	FROM unnest($1::uuid[], $2::uuid[], $3::text[]) AS n (message_id, attempt_id, topic) ORDER BY 1
	ON CONFLICT (message_id) DO UPDATE SET attempt_id = excluded.attempt_id, topic = excluded.topic, sent_at = excluded.sent_at`

// SaveAutoSends implements repository.AutoSends.
func (s *AutoSends) SaveAutoSends(ctx context.Context, claimed []entity.Message) error {
	n := len(claimed)
	ids, attempts, topics := codec.NewArray(codec.OIDUUID, n, 16), codec.NewArray(codec.OIDUUID, n, 16), codec.NewArray(codec.OIDText, n, 24)
	for i := range claimed {
		ids.UUID(claimed[i].ID)
		attempts.UUID(claimed[i].Claim.ID)
		topics.Text(claimed[i].OriginalTopic)
	}
	return conn.Translate("store automatic retries", s.db.Exec(ctx, saveAutoSendsQuery, ids.Arg(), attempts.Arg(), topics.Arg(), s.db.Clock()))
}

const pauseAutoQuery = `
	INSERT INTO dlq.auto_topics AS t (topic, paused_until, pause_reason)
	VALUES ($1, coalesce($2::timestamptz, now()) + $3::bigint * interval '1 microsecond', $4)
	ON CONFLICT (topic) DO UPDATE SET paused_until = greatest(t.paused_until, excluded.paused_until),
		pause_reason = CASE WHEN t.paused_until > excluded.paused_until THEN t.pause_reason ELSE excluded.pause_reason END
	RETURNING paused_until, pause_reason`

// PauseAuto implements repository.AutoSends.
func (s *AutoSends) PauseAuto(ctx context.Context, topic, reason string, pause time.Duration) (entity.AutoPause, error) {
	var found []struct {
		Until  sql.NullTime `db:"paused_until"`
		Reason string       `db:"pause_reason"`
	}
	if err := s.db.Select(ctx, &found, pauseAutoQuery, topic, s.db.Clock(), pause.Microseconds(), reason); err != nil {
		return entity.AutoPause{}, conn.Translate("pause automatic retry", err)
	}
	return entity.AutoPause{Until: codec.TimeOf(found[0].Until), Reason: found[0].Reason}, nil
}
