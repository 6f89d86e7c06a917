package messages

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/audit"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
)

// Attempts claims messages for attempts and finishes them.
type Attempts struct{ db *conn.DB }

// NewAttempts returns Attempts that send their statements to db.
func NewAttempts(db *conn.DB) *Attempts { return &Attempts{db} }

// Claims and results contain the ids of their messages, and PostgreSQL must find these messages by the primary key.
// When its statistics are a minute old, PostgreSQL may expect that only few rows have the status RETRYING; then its
// plan would read all rows with this status for each message. So these queries compare the status in a form for which
// no index can be used: (status = ...) IS TRUE. For RETRYING alone the form is IS NOT FALSE, because IS TRUE is in the
// predicate of the index idx_dlq_messages_claimed_hash.

// claimQuery claims messages. It locks rows in the order of their ids, so that callers never deadlock; when PostgreSQL
// has locked a row, it checks the status again. %LOCK% is replaced by SQL that skips rows that another caller has
// locked, or waits for them, %EDITED% by the step that stores edits, and %KEPT% and %ANSWER% by the columns to return.
var claimQuery = `
	WITH want AS (
		SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::int4[], $5::int8[], $6::bool[],
			$7::text[], $8::uuid[], $17::text[])
			AS w (message_id, claim_id, topic, partition, end_offset, take_over, topic_id, redrive_id, original_topic)
	), taken AS MATERIALIZED (
		SELECT m.id, w.claim_id, w.topic, w.topic_id, w.partition, w.end_offset, w.redrive_id,
		       m.attempt_no, m.retry_count AS counted, m.claim_id AS doubtful, m.claim_redrive_id AS doubtful_redrive,
		       m.last_retry_at, m.last_publish_error, m.last_publish_error_class, m.status AS from_status,
		       coalesce(m.claim_topic, m.original_topic) AS doubtful_topic, m.claim_topic_id AS doubtful_topic_id,
		       m.claim_partition AS doubtful_partition, m.record_hash
		FROM dlq.dlq_messages m JOIN want w ON w.message_id = m.id
		WHERE (m.status = 'PENDING' AND m.retry_count < m.max_retries
		       OR m.status = 'RETRYING' AND m.unsettled AND w.take_over) IS TRUE
		  AND (m.original_topic IS DISTINCT FROM w.original_topic AND w.original_topic IS NOT NULL) IS FALSE
		ORDER BY m.id FOR NO KEY UPDATE OF m %LOCK%
	), claimed AS (
		UPDATE dlq.dlq_messages m SET
			status = 'RETRYING',
			retry_count = m.retry_count + 1,
			last_retry_at = c.moment,
			updated_at = c.moment,
			attempt_no = m.attempt_no + 1,
			claim_id = x.claim_id,
			claim_expires_at = c.moment + $9::bigint * interval '1 microsecond',
			claim_topic = nullif(x.topic, m.original_topic),
			claim_topic_id = x.topic_id,
			claim_partition = x.partition,
			claim_end_offset = x.end_offset,
			claim_redrive_id = x.redrive_id,
			unsettled = false,
			next_attempt_at = NULL,
			last_publish_error = NULL,
			last_publish_error_class = NULL
		FROM taken x, (SELECT coalesce($10::timestamptz, clock_timestamp()) AS moment) c
		WHERE m.id = x.id
		RETURNING %KEPT%
	), history AS (
		INSERT INTO dlq.attempts (message_id, attempt_no, attempt_id, redrive_id, retry_count, verdict, actor, started_at, ended_at,
			from_status, to_status, error_class, error, target_topic, target_topic_id, target_partition, record_hash)
		SELECT x.id, x.attempt_no, x.doubtful, x.doubtful_redrive, x.counted, 'abandoned', $12, x.last_retry_at, m.last_retry_at,
			'RETRYING', 'RETRYING', 'UNKNOWN', x.last_publish_error, x.doubtful_topic, x.doubtful_topic_id, x.doubtful_partition,
			` + SentHashOf("x", "id", "doubtful") + `
		FROM taken x JOIN claimed m ON m.id = x.id AND m.claim_id = x.claim_id WHERE x.doubtful IS NOT NULL
	), audit AS (
		INSERT INTO dlq.audit (at, action, kind, object_id, from_state, to_state, retry_count, error_class, last_error,
			actor, reason, request_id, trace_id, operation_id, call_id)
		SELECT m.last_retry_at, 'retry', 'message', m.id, x.from_status, m.status, m.retry_count,
			x.last_publish_error_class, x.last_publish_error,
			` + audit.CauseFrom12 + `
		FROM taken x JOIN claimed m ON m.id = x.id AND m.claim_id = x.claim_id WHERE $11::bool
	)%EDITED%
	SELECT %ANSWER%`

// The columns that a claim returns. wholeAnswer contains all columns except the bytes of the record. briefAnswer
// contains only the columns for Claiming.Brief, because copying and sending some fifty columns is a tenth of the work
// of a claim.
const (
	wholeAnswer = codec.StateColumns + `
	FROM claimed m LEFT JOIN dlq.topics t ON t.id = m.dlq_topic_id`
	briefColumns = `m.id, m.claim_id, m.retry_count, m.max_retries, m.last_retry_at, m.claim_expires_at`
	briefAnswer  = briefColumns + ` FROM claimed m`
)

// Claim implements repository.Attempts.
func (s *Attempts) Claim(ctx context.Context, claims []repository.Claim, how repository.Claiming) ([]entity.Message, error) {
	if len(claims) == 0 {
		return nil, nil
	}
	n := len(claims)
	ids, claimIDs, topics := codec.NewArray(codec.OIDUUID, n, 16), codec.NewArray(codec.OIDUUID, n, 16), codec.NewArray(codec.OIDText, n, 24)
	partitions, offsets, takeOvers := codec.NewArray(codec.OIDInt4, n, 4), codec.NewArray(codec.OIDInt8, n, 8), codec.NewArray(codec.OIDBool, n, 1)
	topicIDs, redrives, originals := codec.NewArray(codec.OIDText, n, 36), codec.NewArray(codec.OIDUUID, n, 16), codec.NewArray(codec.OIDText, n, 24)
	for _, c := range claims {
		ids.UUID(c.MessageID)
		claimIDs.UUID(c.ID)
		topics.Text(c.Topic)
		partitions.Int32(c.Partition)
		offsets.Int64(c.EndOffset)
		takeOvers.Bool(c.TakeOver)
		topicIDs.OptionalText(c.TopicID)
		redrives.OptionalUUID(c.RedriveID)
		originals.OptionalText(c.OriginalTopic)
	}
	edits := editArgs(claims)
	args := append([]any{
		ids.Arg(), claimIDs.Arg(), topics.Arg(), partitions.Arg(), offsets.Arg(), takeOvers.Arg(),
		topicIDs.Arg(), redrives.Arg(), how.Expiry.Microseconds(), s.db.Clock(), how.Audit,
	}, audit.CauseArgs(how.Cause)...)
	args = append(args, originals.Arg())
	way := claimWays[claimWay{how.Wait, edits != nil, how.Brief}]
	taken, err := s.claimed(ctx, claims, how, way, append(args, edits...)...)
	if err != nil {
		return nil, conn.Translate("claim messages", err)
	}
	if len(taken) < n {
		// The driver sends the statement twice when its connection ends before the answer arrives. Then messages that
		// were not claimed now may have been claimed by the first execution, and these claims belong to this caller
		// too.
		mine, err := s.claimed(ctx, claims, how, claimedBefore(how.Brief), ids.Arg(), claimIDs.Arg())
		if err != nil {
			return nil, conn.Translate("claim messages", err)
		}
		taken = distinct(append(taken, mine...))
	}
	return taken, nil
}

const claimableQuery = `
	SELECT id FROM dlq.dlq_messages
	WHERE id = ANY ($1::uuid[]) AND (status = 'PENDING' AND retry_count < max_retries) IS TRUE`

// Claimable implements repository.Attempts.
func (s *Attempts) Claimable(ctx context.Context, ids []uuid.UUID) ([]uuid.UUID, error) {
	var free []uuid.UUID
	err := s.db.Select(ctx, &free, claimableQuery, codec.UUIDArray(ids))
	return free, conn.Translate("find claimable messages", err)
}

// claimed runs a query that claims messages, or one that finds messages which the same claims have claimed before, and
// returns these messages.
func (s *Attempts) claimed(ctx context.Context, claims []repository.Claim, how repository.Claiming, query string, args ...any) (taken []entity.Message, err error) {
	err = conn.Retry(ctx, func() error {
		if how.Brief {
			taken, err = s.briefly(ctx, claims, query, args...)
			return err
		}
		taken = make([]entity.Message, 0, len(claims))
		return codec.EachRow(ctx, s.db, query, args, nil, func(r *codec.Row) error {
			taken = append(taken, r.Message())
			return nil
		})
	})
	return taken, err
}

// briefly runs a query that returns briefColumns. It sets the other fields of each message's claim from the caller's
// claims.
func (s *Attempts) briefly(ctx context.Context, claims []repository.Claim, query string, args ...any) ([]entity.Message, error) {
	asked := make(map[uuid.UUID]*repository.Claim, len(claims))
	for i := range claims {
		asked[claims[i].ID] = &claims[i]
	}
	taken := make([]entity.Message, 0, len(claims))
	var id, claim uuid.UUID
	var count, limit int
	var began, expires sql.NullTime
	err := s.db.Each(ctx, query, args, []any{&id, &claim, &count, &limit, &began, &expires}, func() error {
		c := asked[claim]
		if c == nil {
			return fmt.Errorf("message %s is claimed as %s, which was not requested", id, claim)
		}
		at := codec.TimeOf(began)
		taken = append(taken, entity.Message{
			ID: id, Status: entity.Retrying, RetryCount: count, MaxRetries: limit, UpdatedAt: at, LastRetryAt: at,
			Claim: entity.Claim{
				ID: claim, ExpiresAt: codec.TimeOf(expires), RedriveID: c.RedriveID,
				Topic: c.Topic, TopicID: c.TopicID, Partition: c.Partition, EndOffset: c.EndOffset,
			},
		})
		return nil
	})
	return taken, err
}

// claimedBeforeQuery returns those messages whose present claim has one of the given claim ids.
const claimedBeforeQuery = `
	WITH claimed AS (
		SELECT m.* FROM unnest($1::uuid[], $2::uuid[]) AS w (message_id, claim_id)
		JOIN dlq.dlq_messages m ON m.id = w.message_id AND m.claim_id = w.claim_id AND (m.status = 'RETRYING') IS NOT FALSE
	)
	SELECT `

func claimedBefore(brief bool) string {
	if brief {
		return claimedBeforeQuery + briefAnswer
	}
	return claimedBeforeQuery + wholeAnswer
}

// distinct returns the first entry of each message in a list that may contain a message several times.
func distinct(messages []entity.Message) []entity.Message {
	seen := make(map[uuid.UUID]bool, len(messages))
	return slices.DeleteFunc(messages, func(m entity.Message) bool {
		known := seen[m.ID]
		seen[m.ID] = true
		return known
	})
}

// finishQuery ends attempts whose claim is still the message's claim, and appends them to the history. Rows are locked
// in the order of their ids, because a late worker and the settler may end the same attempts at the same time. When $16
// is true, the query does not end attempts that sent nothing although their message has a return. finishAndRefute ends
// these attempts, because refuteQuery needs a snapshot that was taken after they ended.
var finishQuery = `
	WITH result AS MATERIALIZED (
		SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[],
			$6::int4[], $7::int8[], $8::int8[])
			AS r (message_id, claim_id, verdict, class, error, partition, log_offset, retry_in)
	), held AS MATERIALIZED (
		SELECT m.id, m.claim_topic, m.claim_topic_id, m.claim_redrive_id, m.record_hash, m.retry_count AS counted,
			r.claim_id, r.verdict, r.class, r.error, r.partition, r.log_offset, r.retry_in,
			$16::bool AND m.outcome = 'returned' AND r.verdict NOT IN ('acknowledged', 'in_doubt') AS deferred,
			CASE
				WHEN r.verdict IN ('acknowledged', 'skipped') THEN 'RESOLVED'
				WHEN r.verdict = 'failed' AND m.retry_count >= m.max_retries THEN 'DEAD'
				WHEN r.verdict = 'rejected' THEN 'DEAD'
				WHEN r.verdict = 'rescued' AND m.rescues + 1 >= $9::int THEN 'DEAD'
				WHEN r.verdict IN ('refused', 'given_back', 'rescued') AND m.retry_count > m.max_retries THEN 'DEAD' -- a take-over at the limit
				WHEN r.verdict = 'in_doubt' THEN 'RETRYING'
				ELSE 'PENDING' END AS to_status
		FROM dlq.dlq_messages m JOIN result r ON r.message_id = m.id
		WHERE (m.status = 'RETRYING') IS NOT FALSE
		  AND coalesce(m.claim_id, '00000000-0000-0000-0000-000000000000') = r.claim_id
		ORDER BY m.id FOR NO KEY UPDATE OF m
	), ended AS (
		UPDATE dlq.dlq_messages m SET
			status = r.to_status,
			retry_count = CASE WHEN r.verdict IN ('refused', 'given_back', 'rescued') THEN greatest(m.retry_count - 1, 0) ELSE m.retry_count END,
			rescues = CASE WHEN r.verdict = 'rescued' THEN m.rescues + 1 WHEN r.verdict IN ('given_back', 'in_doubt') THEN m.rescues ELSE 0 END,
			updated_at = c.moment,
			next_attempt_at = CASE WHEN r.to_status = 'PENDING' THEN ` + codec.NextAttempt("m", "c.moment + r.retry_in * interval '1 microsecond'") + ` END,
			last_publish_error = CASE WHEN r.verdict IN ('acknowledged', 'skipped') THEN NULL ELSE r.error END,
			last_publish_error_class = CASE WHEN r.verdict IN ('acknowledged', 'skipped') THEN NULL ELSE r.class END,
			outcome = CASE WHEN m.outcome = 'returned' THEN 'returned' WHEN r.verdict = 'acknowledged' THEN 'published' END,
			claim_id = CASE WHEN r.verdict = 'in_doubt' THEN m.claim_id END,
			claim_expires_at = CASE WHEN r.verdict = 'in_doubt' THEN m.claim_expires_at END,
			claim_topic = CASE WHEN r.verdict = 'in_doubt' THEN m.claim_topic END,
			claim_topic_id = CASE WHEN r.verdict = 'in_doubt' THEN m.claim_topic_id END,
			claim_partition = CASE WHEN r.verdict = 'in_doubt' THEN m.claim_partition END,
			claim_end_offset = CASE WHEN r.verdict = 'in_doubt' THEN m.claim_end_offset END,
			claim_redrive_id = CASE WHEN r.verdict = 'in_doubt' THEN m.claim_redrive_id END,
			unsettled = r.verdict = 'in_doubt' AND r.class = 'UNKNOWN' AND coalesce(m.claim_expires_at <= c.moment, true)
		FROM held r, (SELECT coalesce($10::timestamptz, clock_timestamp()) AS moment) c
		WHERE m.id = r.id AND (m.status = 'RETRYING') IS NOT FALSE AND r.deferred IS NOT TRUE
		  AND coalesce(m.claim_id, '00000000-0000-0000-0000-000000000000') = r.claim_id
		RETURNING m.id, m.attempt_no, m.status, m.retry_count, m.max_retries, m.next_attempt_at,
		          m.last_retry_at, c.moment, coalesce(r.claim_topic, m.original_topic) AS target_topic,
		          r.claim_topic_id AS target_topic_id, r.claim_redrive_id AS redrive_id, r.record_hash,
		          r.counted, r.claim_id, r.verdict, r.class, r.error, r.partition, r.log_offset
	), history AS (
		INSERT INTO dlq.attempts (message_id, attempt_no, attempt_id, redrive_id, retry_count, verdict, actor, started_at, ended_at,
			from_status, to_status, error_class, error, target_topic, target_topic_id, target_partition, target_offset, record_hash)
		SELECT id, attempt_no, claim_id, redrive_id, counted, verdict, $11, coalesce(last_retry_at, moment), moment,
			'RETRYING', status, class, error, target_topic, target_topic_id, partition, nullif(log_offset, -1),
			` + SentHashOf("ended", "id", "claim_id") + `
		FROM ended WHERE verdict <> 'in_doubt'
		ON CONFLICT (message_id, attempt_no) DO NOTHING
	), audit AS (
		INSERT INTO dlq.audit (at, action, kind, object_id, from_state, to_state, retry_count, error_class, last_error,
			actor, reason, request_id, trace_id, operation_id, call_id, redrive_id)
		SELECT moment, 'attempt', 'message', id, 'RETRYING', status, retry_count, class, error,
			` + audit.CauseFrom11 + `, redrive_id
		FROM ended WHERE verdict <> 'in_doubt'
	)
	SELECT id, status, retry_count, max_retries, next_attempt_at, claim_id, false FROM ended
	UNION ALL SELECT id, '', 0, 0, NULL, claim_id, true FROM held WHERE deferred`

// refuteQuery deletes those returns of the attempts $1 that were recognised by key and value. These attempts have sent
// nothing, so the record that was stored as a return came from another producer. refuteQuery also removes the outcome
// returned from parents that have no return of another attempt. The message of that record stays a child of the
// attempt's message, which only means that it reaches its retry limit earlier.
const refuteQuery = `
	WITH gone AS (
		DELETE FROM dlq.returns WHERE attempt_id = ANY ($1::uuid[]) AND by_content RETURNING attempt_id, parent_id
	), parent AS MATERIALIZED (
		SELECT id FROM dlq.dlq_messages WHERE id IN (SELECT parent_id FROM gone) ORDER BY id FOR NO KEY UPDATE
	)
	UPDATE dlq.dlq_messages m SET outcome = (
		SELECT 'published' FROM dlq.attempts a WHERE a.message_id = m.id AND a.attempt_no = m.attempt_no AND a.verdict = 'acknowledged')
	FROM parent WHERE m.id = parent.id AND NOT EXISTS (
		SELECT FROM dlq.attempts a JOIN dlq.returns r ON r.attempt_id = a.attempt_id
		WHERE a.message_id = m.id AND NOT a.attempt_id = ANY ($1::uuid[]))`

// finishArgs returns the arguments of finishQuery.
func (s *Attempts) finishArgs(results []repository.Result, cause entity.AuditInfo, deferred bool) []any {
	n := len(results)
	ids, claimIDs := codec.NewArray(codec.OIDUUID, n, 16), codec.NewArray(codec.OIDUUID, n, 16)
	verdicts, classes, errs := codec.NewArray(codec.OIDText, n, 12), codec.NewArray(codec.OIDText, n, 16), codec.NewArray(codec.OIDText, n, 16)
	partitions, offsets, retryIns := codec.NewArray(codec.OIDInt4, n, 4), codec.NewArray(codec.OIDInt8, n, 8), codec.NewArray(codec.OIDInt8, n, 8)
	for _, r := range results {
		ids.UUID(r.MessageID)
		claimIDs.UUID(r.ClaimID)
		verdicts.Text(string(r.Verdict))
		classes.OptionalText(string(r.Class))
		errs.OptionalText(r.Error)
		partitions.Int32(r.Partition)
		offsets.Int64(r.Offset)
		retryIns.Int64(r.RetryIn.Microseconds())
	}
	args := append([]any{
		ids.Arg(), claimIDs.Arg(), verdicts.Arg(), classes.Arg(), errs.Arg(), partitions.Arg(), offsets.Arg(),
		retryIns.Arg(), repository.RescueLimit, s.db.Clock(),
	}, audit.CauseArgs(cause)...)
	return append(args, deferred)
}

// finishedRow is a row that finishQuery returns: a message whose attempt the query has ended, or has deferred to
// finishAndRefute.
type finishedRow struct {
	repository.Finished
	status   string
	next     sql.NullTime
	attempt  uuid.UUID
	deferred bool
}

func (r *finishedRow) destinations() []any {
	return []any{&r.MessageID, &r.status, &r.RetryCount, &r.MaxRetries, &r.next, &r.attempt, &r.deferred}
}

func (r *finishedRow) finished() repository.Finished {
	r.Status, r.NextAttemptAt = entity.Status(r.status), codec.TimeOf(r.next)
	return r.Finished
}

// Finish implements repository.Attempts. It ends deferred attempts (see finishQuery) in a second transaction.
func (s *Attempts) Finish(ctx context.Context, results []repository.Result, cause entity.AuditInfo) ([]repository.Finished, error) {
	if len(results) == 0 {
		return nil, nil
	}
	args := s.finishArgs(results, cause, true)
	finished := make([]repository.Finished, 0, len(results))
	var r finishedRow
	var deferred map[uuid.UUID]bool
	err := conn.Retry(ctx, func() error {
		finished, deferred = finished[:0], nil
		return s.db.Each(ctx, finishQuery, args, r.destinations(), func() error {
			if !r.deferred {
				finished = append(finished, r.finished())
				return nil
			}
			if deferred == nil {
				deferred = map[uuid.UUID]bool{}
			}
			deferred[r.attempt] = true
			return nil
		})
	})
	if err == nil && len(deferred) > 0 {
		var others []repository.Finished
		left := slices.DeleteFunc(slices.Clone(results), func(r repository.Result) bool { return !deferred[r.ClaimID] })
		err = conn.Retry(ctx, func() error {
			others, err = s.finishAndRefute(ctx, left, cause)
			return err
		})
		finished = append(finished, others...)
	}
	return finished, conn.Translate("finish attempts", err)
}

// finishAndRefute, in one transaction, ends attempts that sent nothing, and deletes the returns that were matched to
// these attempts because of an equal key and value.
func (s *Attempts) finishAndRefute(ctx context.Context, results []repository.Result, cause entity.AuditInfo) ([]repository.Finished, error) {
	tx, err := s.db.Pool.BeginTxx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }() // undoes the transaction when an error ends it; has no effect after Commit
	finish, err := tx.PrepareContext(ctx, finishQuery)
	if err != nil {
		return nil, err
	}
	defer func() { _ = finish.Close() }()
	rows, err := finish.QueryContext(ctx, s.finishArgs(results, cause, false)...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // rows.Err returns the error of the query, so an error of Close is not needed
	var finished []repository.Finished
	var attempts []uuid.UUID
	var r finishedRow
	for rows.Next() {
		if err := rows.Scan(r.destinations()...); err != nil {
			return nil, err
		}
		finished, attempts = append(finished, r.finished()), append(attempts, r.attempt)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	refute, err := tx.PrepareContext(ctx, refuteQuery)
	if err != nil {
		return nil, err
	}
	defer func() { _ = refute.Close() }()
	if _, err := refute.ExecContext(ctx, codec.UUIDArray(attempts)); err != nil {
		return nil, err
	}
	return finished, tx.Commit()
}

// expiredQuery uses the index of statuses: only few messages are RETRYING at any time, and this index returns them in
// the order of the list.
const expiredQuery = `
	SELECT ` + codec.StateColumns + `
	FROM dlq.dlq_messages m LEFT JOIN dlq.topics t ON t.id = m.dlq_topic_id
	WHERE m.status = 'RETRYING' AND NOT m.unsettled
	  AND (m.claim_expires_at IS NULL OR m.claim_expires_at <= coalesce($1::timestamptz, clock_timestamp()))
	  AND (m.created_at, m.id) > (coalesce($2::timestamptz, '-infinity'), $3::uuid)
	ORDER BY m.created_at, m.id LIMIT $4`

// expiredOneQuery does the same as expiredQuery for a single message.
const expiredOneQuery = `
	SELECT ` + codec.StateColumns + `
	FROM dlq.dlq_messages m LEFT JOIN dlq.topics t ON t.id = m.dlq_topic_id
	WHERE m.id = $2 AND m.status = 'RETRYING' AND NOT m.unsettled
	  AND (m.claim_expires_at IS NULL OR m.claim_expires_at <= coalesce($1::timestamptz, clock_timestamp()))`

// Expired implements repository.Attempts.
func (s *Attempts) Expired(ctx context.Context, q repository.ExpiredQuery) ([]entity.Message, error) {
	var found []codec.Row
	var err error
	if q.ID != uuid.Nil {
		err = s.db.Select(ctx, &found, expiredOneQuery, s.db.Clock(), q.ID)
	} else {
		after := sql.NullTime{Time: q.After.CreatedAt, Valid: !q.After.CreatedAt.IsZero()}
		err = s.db.Select(ctx, &found, expiredQuery, s.db.Clock(), after, q.After.ID, q.Limit)
	}
	if err != nil {
		return nil, conn.Translate("find expired claims", err)
	}
	return states(found), nil
}

func states(found []codec.Row) []entity.Message {
	out := make([]entity.Message, len(found))
	for i := range found {
		out[i] = found[i].Message()
	}
	return out
}

// claimWay contains the options of a claim on which the text of its SQL statement depends.
type claimWay struct{ Wait, Edited, brief bool }

var claimWays = map[claimWay]string{
	{}:                                      claimStatement(claimWay{}),
	{Wait: true}:                            claimStatement(claimWay{Wait: true}),
	{Edited: true}:                          claimStatement(claimWay{Edited: true}),
	{brief: true}:                           claimStatement(claimWay{brief: true}),
	{Wait: true, Edited: true}:              claimStatement(claimWay{Wait: true, Edited: true}),
	{Wait: true, brief: true}:               claimStatement(claimWay{Wait: true, brief: true}),
	{Edited: true, brief: true}:             claimStatement(claimWay{Edited: true, brief: true}),
	{Wait: true, Edited: true, brief: true}: claimStatement(claimWay{Wait: true, Edited: true, brief: true}),
}

func claimStatement(way claimWay) string {
	lock, edited, kept, answer := "SKIP LOCKED", "", "m.*", wholeAnswer
	if way.Wait {
		lock = ""
	}
	if way.Edited {
		edited = editedStep
	}
	if way.brief {
		kept, answer = briefColumns+", m.status", briefAnswer
	}
	return strings.NewReplacer("%LOCK%", lock, "%EDITED%", edited, "%KEPT%", kept, "%ANSWER%", answer).Replace(claimQuery)
}
