package postgres

import (
	"context"
	"database/sql"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Claims and results name their messages by id, and only the primary key may
// find them. Statistics that are a minute old say that hardly any row is
// RETRYING; a plan that trusts them reads all such rows once for each message, a
// thousand times too slow. So the status is compared in a form that no index
// answers: (status = ...) IS TRUE.

// claimQuery takes messages. The rows are locked in the order of their ids, so
// that two callers never wait for one another in a circle; %LOCK% decides what
// happens to a row that another caller holds. The status is asked again by the
// lock itself: a caller that waited sees the state that the other left.
const claimQuery = `
	WITH want AS (
		SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::int4[], $5::int8[], $6::bool[],
			$9::text[], $10::text[])
			AS w (message_id, claim_id, topic, partition, end_offset, take_over, topic_id, actor)
	), taken AS MATERIALIZED (
		SELECT m.id, w.claim_id, w.topic, w.topic_id, w.partition, w.end_offset, w.actor,
		       m.attempt_no, m.retry_count AS counted, m.claim_id AS doubtful, m.last_retry_at, m.last_publish_error,
		       coalesce(m.claim_topic, m.original_topic) AS doubtful_topic, m.claim_partition AS doubtful_partition
		FROM dlq.dlq_messages m JOIN want w ON w.message_id = m.id
		WHERE (m.status = 'PENDING' AND m.retry_count < m.max_retries
		       OR m.status = 'RETRYING' AND m.unsettled AND w.take_over) IS TRUE
		ORDER BY m.id FOR NO KEY UPDATE OF m %LOCK%
	), claimed AS (
		UPDATE dlq.dlq_messages m SET
			status = 'RETRYING',
			retry_count = m.retry_count + 1,
			last_retry_at = c.moment,
			updated_at = c.moment,
			attempt_no = m.attempt_no + 1,
			claim_id = x.claim_id,
			claim_expires_at = c.moment + $7::bigint * interval '1 microsecond',
			claim_topic = nullif(x.topic, m.original_topic),
			claim_topic_id = x.topic_id,
			claim_partition = x.partition,
			claim_end_offset = x.end_offset,
			unsettled = false,
			next_attempt_at = NULL,
			last_publish_error = NULL,
			last_publish_error_class = NULL
		FROM taken x, (SELECT coalesce($8::timestamptz, clock_timestamp()) AS moment) c
		WHERE m.id = x.id
		RETURNING m.*
	), history AS (
		INSERT INTO dlq.attempts (message_id, attempt_no, attempt_id, retry_count, actor, started_at, ended_at,
			from_status, to_status, error_class, error, target_topic, target_partition)
		SELECT x.id, x.attempt_no, x.doubtful, x.counted, x.actor, x.last_retry_at, m.last_retry_at,
			'RETRYING', 'RETRYING', 'UNKNOWN', x.last_publish_error, x.doubtful_topic, x.doubtful_partition
		FROM taken x JOIN claimed m ON m.id = x.id WHERE x.doubtful IS NOT NULL
	)
	SELECT ` + stateColumns + `
	FROM claimed m LEFT JOIN dlq.topics t ON t.id = m.dlq_topic_id`

// Claim implements repository.Attempts.
func (s *Store) Claim(ctx context.Context, claims []repository.Claim, expiry time.Duration, wait bool) ([]entity.Message, error) {
	if len(claims) == 0 {
		return nil, nil
	}
	n := len(claims)
	ids, claimIDs, topics := newColumn(oidUUID, n, 16), newColumn(oidUUID, n, 16), newColumn(oidText, n, 24)
	partitions, offsets, takeOvers := newColumn(oidInt4, n, 4), newColumn(oidInt8, n, 8), newColumn(oidBool, n, 1)
	topicIDs, actors := newColumn(oidText, n, 36), newColumn(oidText, n, 16)
	for _, c := range claims {
		ids.uuid(c.MessageID)
		claimIDs.uuid(c.ID)
		topics.text(c.Topic)
		partitions.int32(c.Partition)
		offsets.int64(c.EndOffset)
		takeOvers.bool(c.TakeOver)
		topicIDs.optionalText(c.TopicID)
		actors.text(c.Actor)
	}
	query := claimSkipping
	if wait {
		query = claimWaiting
	}
	var found []row
	err := s.selectRows(ctx, &found, query, ids.arg(), claimIDs.arg(), topics.arg(), partitions.arg(),
		offsets.arg(), takeOvers.arg(), expiry.Microseconds(), s.clock(), topicIDs.arg(), actors.arg())
	if err != nil {
		return nil, translate("claim messages", err)
	}
	return states(found), nil
}

// finishQuery ends attempts and appends their history. Verdicts are numbered as
// entity.Verdict: 1 acknowledged, 2 skipped, 3 failed, 4 rejected, 5 refused,
// 6 given back, 7 in doubt. Only the holder of the claim gets through. The rows
// are locked in the order of their ids, as a claim does, because a late worker
// and the settler may end the same attempts at the same moment.
const finishQuery = `
	WITH result AS MATERIALIZED (
		SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::int4[], $5::text[], $6::text[],
			$7::int4[], $8::int8[], $9::int8[])
			AS r (message_id, claim_id, actor, verdict, class, error, partition, log_offset, retry_in)
	), held AS MATERIALIZED (
		SELECT m.id, m.claim_topic, m.retry_count AS counted FROM dlq.dlq_messages m JOIN result r ON r.message_id = m.id
		WHERE (m.status = 'RETRYING') IS TRUE
		  AND coalesce(m.claim_id, '00000000-0000-0000-0000-000000000000') = r.claim_id
		ORDER BY m.id FOR NO KEY UPDATE OF m
	), ended AS (
		UPDATE dlq.dlq_messages m SET
			status = CASE
				WHEN r.verdict IN (1, 2) THEN 'RESOLVED'
				WHEN r.verdict = 3 AND m.retry_count >= m.max_retries THEN 'DEAD'
				WHEN r.verdict = 4 THEN 'DEAD'
				WHEN r.verdict = 6 AND m.rescues + 1 >= $10::int THEN 'DEAD'
				WHEN r.verdict IN (5, 6) AND m.retry_count > m.max_retries THEN 'DEAD' -- a take-over at the limit
				WHEN r.verdict = 7 THEN 'RETRYING'
				ELSE 'PENDING' END,
			retry_count = CASE WHEN r.verdict IN (5, 6) THEN greatest(m.retry_count - 1, 0) ELSE m.retry_count END,
			rescues = CASE WHEN r.verdict = 6 THEN m.rescues + 1 WHEN r.verdict = 7 THEN m.rescues ELSE 0 END,
			updated_at = c.moment,
			next_attempt_at = CASE WHEN r.verdict = 3 AND m.retry_count < m.max_retries
				THEN c.moment + r.retry_in * interval '1 microsecond' END,
			last_publish_error = CASE WHEN r.verdict IN (1, 2) THEN NULL ELSE r.error END,
			last_publish_error_class = CASE WHEN r.verdict IN (1, 2) THEN NULL ELSE r.class END,
			outcome = CASE WHEN m.outcome = 'returned' THEN 'returned' WHEN r.verdict = 1 THEN 'published' END,
			claim_id = CASE WHEN r.verdict = 7 THEN m.claim_id END,
			claim_expires_at = CASE WHEN r.verdict = 7 THEN m.claim_expires_at END,
			claim_topic = CASE WHEN r.verdict = 7 THEN m.claim_topic END,
			claim_topic_id = CASE WHEN r.verdict = 7 THEN m.claim_topic_id END,
			claim_partition = CASE WHEN r.verdict = 7 THEN m.claim_partition END,
			claim_end_offset = CASE WHEN r.verdict = 7 THEN m.claim_end_offset END,
			unsettled = r.verdict = 7 AND r.class = 'UNKNOWN' AND coalesce(m.claim_expires_at <= c.moment, true)
		FROM held JOIN result r ON r.message_id = held.id,
		     (SELECT coalesce($11::timestamptz, clock_timestamp()) AS moment) c
		WHERE m.id = held.id AND (m.status = 'RETRYING') IS TRUE
		  AND coalesce(m.claim_id, '00000000-0000-0000-0000-000000000000') = r.claim_id
		RETURNING m.id, m.attempt_no, m.status, m.retry_count, m.max_retries, m.next_attempt_at,
		          m.last_retry_at, c.moment, coalesce(held.claim_topic, m.original_topic) AS target_topic,
		          held.counted, r.claim_id, r.actor, r.verdict, r.class, r.error, r.partition, r.log_offset
	), history AS (
		INSERT INTO dlq.attempts (message_id, attempt_no, attempt_id, retry_count, actor, started_at, ended_at,
			from_status, to_status, error_class, error, target_topic, target_partition, target_offset)
		SELECT id, attempt_no, claim_id, counted, actor, coalesce(last_retry_at, moment), moment,
			'RETRYING', status, class, error, target_topic, partition, nullif(log_offset, -1)
		FROM ended WHERE verdict <> 7
		ON CONFLICT (message_id, attempt_no) DO NOTHING
	)
	SELECT id, status, retry_count, max_retries, next_attempt_at FROM ended`

// Finish implements repository.Attempts.
func (s *Store) Finish(ctx context.Context, results []repository.Result) ([]repository.Finished, error) {
	if len(results) == 0 {
		return nil, nil
	}
	n := len(results)
	ids, claimIDs, actors := newColumn(oidUUID, n, 16), newColumn(oidUUID, n, 16), newColumn(oidText, n, 16)
	verdicts, classes, errs := newColumn(oidInt4, n, 4), newColumn(oidText, n, 16), newColumn(oidText, n, 16)
	partitions, offsets, retryIns := newColumn(oidInt4, n, 4), newColumn(oidInt8, n, 8), newColumn(oidInt8, n, 8)
	for _, r := range results {
		ids.uuid(r.MessageID)
		claimIDs.uuid(r.ClaimID)
		actors.text(r.Actor)
		verdicts.int32(int32(r.Verdict))
		classes.optionalText(string(r.Class))
		errs.optionalText(r.Error)
		partitions.int32(r.Partition)
		offsets.int64(r.Offset)
		retryIns.int64(r.RetryIn.Microseconds())
	}
	var found []finishedRow
	err := s.selectRows(ctx, &found, finishQuery, ids.arg(), claimIDs.arg(), actors.arg(), verdicts.arg(),
		classes.arg(), errs.arg(), partitions.arg(), offsets.arg(), retryIns.arg(), repository.RescueLimit, s.clock())
	if err != nil {
		return nil, translate("finish attempts", err)
	}
	finished := make([]repository.Finished, len(found))
	for i, f := range found {
		finished[i] = repository.Finished{
			MessageID: f.ID, Status: entity.Status(f.Status), RetryCount: f.RetryCount, MaxRetries: f.MaxRetries,
			NextAttemptAt: moment(f.NextAttemptAt),
		}
	}
	return finished, nil
}

type finishedRow struct {
	ID            uuid.UUID    `db:"id"`
	Status        string       `db:"status"`
	RetryCount    int          `db:"retry_count"`
	MaxRetries    int          `db:"max_retries"`
	NextAttemptAt sql.NullTime `db:"next_attempt_at"`
}

// expiredQuery needs no index of its own: few messages are RETRYING at a time,
// and the status index has them in this order.
const expiredQuery = `
	SELECT ` + stateColumns + `
	FROM dlq.dlq_messages m LEFT JOIN dlq.topics t ON t.id = m.dlq_topic_id
	WHERE m.status = 'RETRYING' AND NOT m.unsettled
	  AND (m.claim_expires_at IS NULL OR m.claim_expires_at <= coalesce($1::timestamptz, clock_timestamp()))
	  AND (m.created_at, m.id) > (coalesce($2::timestamptz, '-infinity'), $3::uuid)
	ORDER BY m.created_at, m.id LIMIT $4`

const expiredOneQuery = `
	SELECT ` + stateColumns + `
	FROM dlq.dlq_messages m LEFT JOIN dlq.topics t ON t.id = m.dlq_topic_id
	WHERE m.id = $2 AND m.status = 'RETRYING' AND NOT m.unsettled
	  AND (m.claim_expires_at IS NULL OR m.claim_expires_at <= coalesce($1::timestamptz, clock_timestamp()))`

// Expired implements repository.Attempts.
func (s *Store) Expired(ctx context.Context, q repository.ExpiredQuery) ([]entity.Message, error) {
	var found []row
	var err error
	if q.ID != uuid.Nil {
		err = s.selectRows(ctx, &found, expiredOneQuery, s.clock(), q.ID)
	} else {
		after := sql.NullTime{Time: q.After.CreatedAt, Valid: !q.After.CreatedAt.IsZero()}
		err = s.selectRows(ctx, &found, expiredQuery, s.clock(), after, q.After.ID, q.Limit)
	}
	if err != nil {
		return nil, translate("find expired claims", err)
	}
	return states(found), nil
}

func states(found []row) []entity.Message {
	out := make([]entity.Message, len(found))
	for i := range found {
		out[i] = found[i].message()
	}
	return out
}

type attemptRow struct {
	MessageID uuid.UUID `db:"message_id"`
	Number    int       `db:"attempt_no"`
	ID        uuid.UUID `db:"attempt_id"`
	Count     int       `db:"retry_count"`
	Actor     string    `db:"actor"`
	StartedAt time.Time `db:"started_at"`
	EndedAt   time.Time `db:"ended_at"`
	From      string    `db:"from_status"`
	To        string    `db:"to_status"`
	Class     string    `db:"error_class"`
	Error     string    `db:"error"`
	Topic     string    `db:"target_topic"`
	Partition int32     `db:"target_partition"`
	Offset    int64     `db:"target_offset"`
}

func (r *attemptRow) attempt() entity.Attempt {
	return entity.Attempt{
		MessageID: r.MessageID, Number: r.Number, ID: r.ID, RetryCount: r.Count, Actor: r.Actor,
		StartedAt: entity.Moment(r.StartedAt), EndedAt: entity.Moment(r.EndedAt),
		From: entity.Status(r.From), To: entity.Status(r.To),
		Class: entity.ErrorClass(r.Class), Error: r.Error,
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset,
	}
}

var (
	claimWaiting  = withLock(claimQuery, "")
	claimSkipping = withLock(claimQuery, "SKIP LOCKED")
)
