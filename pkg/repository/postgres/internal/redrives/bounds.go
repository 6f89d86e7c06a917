package redrives

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/audit"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
)

// Bounds implements repository.Bounds.
type Bounds struct {
	db        *conn.DB
	lifecycle *Lifecycle
}

// NewBounds returns Bounds that send their statements to db.
func NewBounds(db *conn.DB, lifecycle *Lifecycle) *Bounds { return &Bounds{db, lifecycle} }

// admitQuery admits messages in the row of the topic, whose lock decides between processes, and notes them at the
// batch, from which saveBatchQuery and the next owner of the batch know them.
const admitQuery = `
	WITH mine AS MATERIALIZED (
		SELECT b.redrive_id, b.batch_no, coalesce($2::timestamptz, clock_timestamp()) AS moment
		FROM dlq.redrives r JOIN dlq.redrive_batches b ON b.redrive_id = r.id
		WHERE r.id = $1 AND b.batch_no = $3 AND b.owner = $4 AND r.state IN ('canary', 'running')
		FOR NO KEY UPDATE OF b
	), admitted AS (
		INSERT INTO dlq.redrive_topics AS t (redrive_id, topic, bound, admitted, granted, admitted_at)
		SELECT redrive_id, $5, $7::int, least($6::int, $7), least($6, $7), moment FROM mine
		ON CONFLICT (redrive_id, topic) DO UPDATE SET
			granted = ` + granted + `, admitted = t.admitted + ` + granted + `,
			admitted_at = CASE WHEN ` + granted + ` > 0 THEN excluded.admitted_at ELSE t.admitted_at END
		RETURNING granted
	), noted AS (
		UPDATE dlq.redrive_batches b SET admitted = coalesce(b.admitted, '{}')
			|| jsonb_build_object($5::text, coalesce((b.admitted->>$5)::int, 0) + admitted.granted)
		FROM mine, admitted WHERE b.redrive_id = mine.redrive_id AND b.batch_no = mine.batch_no
	)
	SELECT granted FROM admitted`

const (
	unknown = `greatest(0, t.admitted - t.known - t.presumed)`
	granted = `CASE WHEN t.lifted IS NOT NULL THEN $6 ELSE least($6, greatest(0, t.bound - ` + unknown + `)) END`
)

// Admit implements repository.Bounds.
func (s *Bounds) Admit(ctx context.Context, l repository.Lease, topic string, n, first int) (int, error) {
	var found []int
	if err := s.db.Select(ctx, &found, admitQuery, l.RedriveID, s.db.Clock(), l.Number, l.Owner, codec.Clean(topic), n, first); err != nil {
		return 0, conn.Translate("admit messages", err)
	}
	if len(found) == 0 {
		return 0, s.lifecycle.mustExist(ctx, "admit messages", l.RedriveID)
	}
	return found[0], nil
}

// outcomesOfTopicsQuery counts the known outcomes of each target topic. It reads the messages of a batch until it has
// found all their outcomes; then the batch keeps the number. It notes a number when it first finds it, and lets it
// count when a later call comes after the time $3.
var outcomesOfTopicsQuery = `
	WITH open AS MATERIALIZED (
		SELECT * FROM dlq.redrive_batches WHERE redrive_id = $1 AND settled IS NULL AND succeeded > 0
	), sent AS MATERIALIZED (
		SELECT b.batch_no, i.topic, i.consumer_group, i.outcome <> 'published' OR ` + madeAgain + ` AS known
		FROM open b CROSS JOIN LATERAL (` + itemsOfBatch + `) i WHERE i.result = 1 AND i.topic <> ''
	), settled AS (
		UPDATE dlq.redrive_batches b SET settled = s.numbers
		FROM (
			SELECT batch_no, jsonb_object_agg(topic, n) AS numbers
			FROM (SELECT batch_no, topic, count(*) AS n, bool_and(known) AS known FROM sent GROUP BY 1, 2) p
			GROUP BY batch_no HAVING bool_and(known)
		) s
		WHERE b.redrive_id = $1 AND b.batch_no = s.batch_no AND b.done AND b.settled IS NULL
	), found AS (
		SELECT topic, sum(n)::int AS known FROM (
			SELECT e.key AS topic, e.value::int AS n
			FROM dlq.redrive_batches b CROSS JOIN LATERAL jsonb_each_text(b.settled) e WHERE b.redrive_id = $1
			UNION ALL
			SELECT topic, count(*) FILTER (WHERE known) FROM sent GROUP BY topic
		) f GROUP BY topic
	), counted AS (
		UPDATE dlq.redrive_topics t SET
			known = CASE WHEN ` + settling + ` THEN t.known ELSE greatest(t.known, t.seen) END,
			seen = CASE WHEN ` + settling + ` THEN t.seen ELSE found.known END,
			seen_at = CASE WHEN ` + settling + ` THEN t.seen_at ELSE c.moment END
		FROM found, (SELECT coalesce($2::timestamptz, clock_timestamp()) AS moment) c
		WHERE t.redrive_id = $1 AND t.topic = found.topic AND found.known > t.known
		RETURNING t.topic, t.known
	)
	SELECT (` + boundJSON + `::jsonb || jsonb_build_object('known', coalesce(k.known, t.known), 'groups', (
		SELECT jsonb_agg(DISTINCT s.consumer_group) FROM sent s WHERE s.topic = t.topic AND NOT s.known)))::text
	FROM dlq.redrive_topics t LEFT JOIN counted k ON k.topic = t.topic
	WHERE t.redrive_id = $1 ORDER BY t.topic COLLATE "C"`

// madeAgain is the condition that the topic of the item i was deleted and created again after the message was sent: its
// consumer group has committed in another incarnation since. Nothing will show the outcome then.
const madeAgain = `EXISTS (
			SELECT FROM dlq.committed_offsets c WHERE c.consumer_group = i.consumer_group AND c.topic = i.topic AND c.topic_id <> i.topic_id
			AND c.seen_at > coalesce((
				SELECT max(o.seen_at) FROM dlq.committed_offsets o
				WHERE o.consumer_group = i.consumer_group AND o.topic = i.topic AND o.topic_id = i.topic_id
			), (SELECT created_at FROM dlq.redrives WHERE id = $1)))`

// settling is the condition that the number in seen does not count yet.
const settling = `(t.seen > t.known AND t.seen_at > c.moment - $3::bigint * interval '1 microsecond')`

// RedriveBounds implements repository.Bounds.
func (s *Bounds) RedriveBounds(ctx context.Context, id uuid.UUID, settle time.Duration) ([]entity.TopicBound, error) {
	var found []string
	if err := s.db.Select(ctx, &found, outcomesOfTopicsQuery, id, s.db.Clock(), settle.Microseconds()); err != nil {
		return nil, conn.Translate("count outcomes of topics", err)
	}
	var bounds []entity.TopicBound
	for _, row := range found {
		b, err := unpackBounds([]byte("[" + row + "]"))
		if err != nil {
			return nil, err
		}
		bounds = append(bounds, b...)
	}
	if len(bounds) == 0 {
		return nil, s.lifecycle.mustExist(ctx, "count outcomes of topics", id)
	}
	return bounds, nil
}

// sourcesQuery reads one message of each batch, because the messages of a bounded redrive's batch have one original
// topic, and so mostly one dead-letter topic.
const sourcesQuery = `
	SELECT name FROM dlq.topics WHERE id IN (
		SELECT m.dlq_topic_id FROM dlq.redrive_batches b JOIN dlq.dlq_messages m ON m.id = b.message_ids[1] WHERE b.redrive_id = $1
	) ORDER BY name`

// RedriveSources implements repository.Bounds.
func (s *Bounds) RedriveSources(ctx context.Context, id uuid.UUID) ([]string, error) {
	var names []string
	err := s.db.Select(ctx, &names, sourcesQuery, id)
	return names, conn.Translate("list dead-letter topics of a redrive", err)
}

const saveBoundQuery = `
	UPDATE dlq.redrive_topics SET bound = $6, presumed = $7, counted = $8, looks = $9, lifted = nullif($10, '')
	WHERE redrive_id = $1 AND topic = $2 AND bound = $3 AND looks = $4 AND coalesce(lifted, '') = $5
	RETURNING true`

// SaveBound implements repository.Bounds.
func (s *Bounds) SaveBound(ctx context.Context, id uuid.UUID, was, now entity.TopicBound) (bool, error) {
	var saved []bool
	err := s.db.Select(ctx, &saved, saveBoundQuery, id, was.Topic, was.Bound, was.Looks, string(was.Lifted),
		now.Bound, now.Presumed, now.Counted, now.Looks, string(now.Lifted))
	return len(saved) > 0, conn.Translate("save a bound", err)
}

// continueQuery locks the redrive first, like moveRedriveQuery.
const continueQuery = `
	WITH held AS MATERIALIZED (
		SELECT id, state FROM dlq.redrives WHERE id = $1 FOR NO KEY UPDATE
	), lifted AS (
		UPDATE dlq.redrive_topics t SET lifted = '` + string(entity.BoundContinued) + `' FROM held
		WHERE t.redrive_id = held.id AND t.lifted IS NULL
		  AND (held.state = 'canary' AND ` + unknown + ` > 0 OR held.state = 'running' AND ` + unknown + ` >= t.bound)
		RETURNING t.topic
	), moved AS (
		UPDATE dlq.redrives r SET note = '', waiting_since = NULL, updated_at = c.moment,
			state = CASE WHEN c.sent THEN 'running' ELSE r.state END, canary_passed = r.canary_passed OR c.sent
		FROM held, (
			SELECT coalesce($2::timestamptz, clock_timestamp()) AS moment, (SELECT state FROM held) = 'canary' AND NOT EXISTS (
				SELECT FROM dlq.redrive_batches b WHERE b.redrive_id = $1 AND b.canary AND (NOT b.done OR b.failed + b.in_doubt > 0
					OR b.message_ids && ARRAY(SELECT parent_id FROM dlq.returns WHERE redrive_id = $1))) AS sent
		) c
		WHERE r.id = held.id AND (c.sent OR EXISTS (SELECT FROM lifted))
		RETURNING r.id, held.state AS from_state, r.state, r.updated_at
	), audit AS (
		INSERT INTO dlq.audit (at, action, kind, object_id, from_state, to_state, actor, reason, request_id, trace_id, operation_id, call_id)
		SELECT updated_at, '` + string(entity.ActionContinue) + `', 'redrive', id, from_state, state, ` + audit.CauseFrom3 + ` FROM moved
	)
	SELECT held.state, EXISTS (SELECT FROM moved) AS moved FROM held`

// ContinueRedrive implements repository.Bounds.
func (s *Bounds) ContinueRedrive(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) (entity.Redrive, error) {
	cause = audit.WithOperation(cause)
	var found []struct {
		State string `db:"state"`
		Moved bool   `db:"moved"`
	}
	args := append([]any{id, s.db.Clock()}, audit.CauseArgs(cause)...)
	if err := s.db.Select(ctx, &found, continueQuery, args...); err != nil {
		return entity.Redrive{}, conn.Translate("continue redrive", err)
	}
	if len(found) == 0 {
		return entity.Redrive{}, &entity.RedriveNotFoundError{ID: id}
	}
	if !found[0].Moved {
		again, err := audit.ChangedBy(ctx, s.db, cause.Operation, entity.ActionContinue, []uuid.UUID{id})
		if err != nil {
			return entity.Redrive{}, conn.Translate("continue redrive", err)
		}
		if len(again) == 0 {
			return entity.Redrive{}, &entity.NothingWaitsError{ID: id, State: entity.RedriveState(found[0].State)}
		}
	}
	return s.lifecycle.Redrive(ctx, id)
}
