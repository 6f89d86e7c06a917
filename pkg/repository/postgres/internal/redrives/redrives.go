package redrives

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/audit"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/search"
)

// Lifecycle creates redrives, reads them and changes their states.
type Lifecycle struct {
	db     *conn.DB
	scopes *search.Scopes
}

// NewLifecycle returns a Lifecycle that sends its statements to db.
func NewLifecycle(db *conn.DB, scopes *search.Scopes) *Lifecycle { return &Lifecycle{db, scopes} }

// createQuery creates a redrive and stores its selection in one statement. It collects the ids of all selected
// messages, in order, in one array, or in one for each original topic (%BY_TOPIC%), and gives each batch a slice of an
// array. The topics come in the order of their first messages. For a million messages this takes one walk of an index
// and about 50 MB of the server's memory. %SELECTION% is replaced by the query of a selection, whose parameters are
// those after $14, and %ORDER% by its order. No step may sort rows that contain a whole array, or use window functions
// on them, because each row would get a copy of it.
const createQuery = `
	WITH matched AS (
	%SELECTION%
	), picked AS MATERIALIZED (
		SELECT coalesce(array_agg(id ORDER BY %ORDER%) FILTER (WHERE reason IS NULL), '{}') AS ids%TOPIC%,
		       count(*) AS selected,
		       count(*) FILTER (WHERE reason = 'taken') AS taken,
		       count(*) FILTER (WHERE reason = 'gone') AS gone,
		       count(*) FILTER (WHERE reason = 'not_retryable') AS not_retryable,
		       count(*) FILTER (WHERE reason = 'origin_known') AS origin_known,
		       count(*) FILTER (WHERE reason = '` + entity.ReasonRepeat + `') AS repeats
		FROM matched%BY_TOPIC%
	), total AS MATERIALIZED (
		SELECT coalesce(sum(cardinality(ids)), 0)::int AS ids, coalesce(sum(selected), 0)::int AS selected,
		       coalesce(sum(taken), 0)::int AS taken, coalesce(sum(gone), 0)::int AS gone,
		       coalesce(sum(not_retryable), 0)::int AS not_retryable, coalesce(sum(origin_known), 0)::int AS origin_known,
		       coalesce(sum(repeats), 0)::int AS repeats
		FROM picked
	), part AS MATERIALIZED (
		SELECT topic, cardinality(ids) AS n, first FROM picked WHERE cardinality(ids) > 0
	), span AS MATERIALIZED (
		SELECT topic, start, start + n AS beyond, greatest(start, least(start + n, $12::int)) AS cut
		FROM (SELECT topic, n, (sum(n) OVER (ORDER BY first, topic ROWS UNBOUNDED PRECEDING) - n)::int AS start FROM part) p
	), made AS (
		INSERT INTO dlq.redrives (id, action, state, actor, reason, request_id, trace_id, operation_id, call_id, selection, options,
			created_at, updated_at, ended_at, selected, left_out, canary_passed, ordered, rate)
		SELECT $1, $8, CASE WHEN p.ids = 0 THEN 'finished' WHEN $12 > 0 THEN 'canary' ELSE 'running' END,
			` + audit.CauseFrom3 + `, $9::jsonb, $10::jsonb,
			c.moment, c.moment, CASE WHEN p.ids = 0 THEN c.moment END, p.selected,
			jsonb_strip_nulls(jsonb_build_object('taken', nullif(p.taken, 0), 'gone', nullif(p.gone, 0),
				'not_retryable', nullif(p.not_retryable, 0), 'origin_known', nullif(p.origin_known, 0),
				'` + entity.ReasonRepeat + `', nullif(p.repeats, 0))),
			$12 = 0, $13::bool, nullif($14::float8, 0)
		FROM total p, (SELECT coalesce($2::timestamptz, clock_timestamp()) AS moment) c
		ON CONFLICT (id) DO NOTHING
		RETURNING id, state, created_at
	), batches AS (
		INSERT INTO dlq.redrive_batches (redrive_id, batch_no, first_item, canary, message_ids, topic)
		SELECT made.id, b.no, b.first, b.first < $12, p.ids[b.first - b.start + 1 : b.beyond - b.start], nullif(p.topic, '')
		FROM made CROSS JOIN (
			SELECT topic, start, first, beyond, (row_number() OVER (ORDER BY first) - 1)::int AS no FROM (
				SELECT topic, start, first, least(first + $11::int, cut) AS beyond
				FROM span, generate_series(start, cut - 1, $11) AS first
				UNION ALL
				SELECT topic, start, first, least(first + $11, beyond) FROM span, generate_series(cut, beyond - 1, $11) AS first
			) cuts
		) b JOIN picked p ON p.topic = b.topic
	), audit AS (
		INSERT INTO dlq.audit (at, action, kind, object_id, to_state, actor, reason, request_id, trace_id, operation_id, call_id)
		SELECT created_at, 'create', 'redrive', id, state, ` + audit.CauseFrom3 + ` FROM made
	)
	SELECT id FROM made`

// CreateRedrive implements repository.Redrives.
func (s *Lifecycle) CreateRedrive(ctx context.Context, r repository.NewRedrive) (entity.Redrive, error) {
	if known, err := s.Redrive(ctx, r.ID); !errors.Is(err, entity.ErrNotFound) {
		return known, err
	}
	query, args, err := creation(ctx, s.db, s.scopes, r)
	if err != nil {
		return entity.Redrive{}, conn.Translate("create redrive", err)
	}
	var made []uuid.UUID // empty when the redrive exists already, because another caller has created it
	if err := s.db.SelectUnprepared(ctx, &made, query, args...); err != nil {
		return entity.Redrive{}, conn.Translate("create redrive", err)
	}
	return s.Redrive(ctx, r.ID)
}

func creation(ctx context.Context, db *conn.DB, scopes *search.Scopes, r repository.NewRedrive) (string, []any, error) {
	found, err := newSelection(ctx, scopes, r, 15)
	if err != nil {
		return "", nil, err
	}
	size, err := batchSize(r)
	if err != nil {
		return "", nil, err
	}
	chosen, err := packSelection(r.Selection)
	if err != nil {
		return "", nil, err
	}
	options, err := packOptions(r.Options)
	if err != nil {
		return "", nil, err
	}
	canary, ordered := 0, r.Options.KeepKeyOrder && r.Action == entity.RedriveRetry
	if r.Action == entity.RedriveRetry {
		canary = max(0, r.Options.Canary)
	}
	if ordered {
		found.inKeyOrder()
	}
	args := append([]any{r.ID, db.Clock()}, audit.CauseArgs(r.Cause)...)
	args = append(args, codec.StoredAction(r), chosen, options, size, canary, ordered, max(0, r.Options.Rate))
	topic, byTopic := ", '' AS topic, 0 AS first", ""
	if r.Options.Bounded() && r.Action == entity.RedriveRetry && !r.Selection.Archived {
		topic, byTopic = ", coalesce(original_topic, '') AS topic, min("+found.first+") AS first", " GROUP BY coalesce(original_topic, '')"
	}
	query := strings.NewReplacer("%TOPIC%", topic, "%BY_TOPIC%", byTopic).Replace(createQuery)
	return found.Within(query), append(args, found.Values...), nil
}

// batchSize returns the number of messages in a batch. When the redrive has a rate, a batch contains at most the
// messages of one second, because leasing a whole batch is delayed to keep the rate.
func batchSize(r repository.NewRedrive) (int, error) {
	if r.BatchSize < 1 {
		return 0, fmt.Errorf("batches of %d messages: %w", r.BatchSize, entity.ErrInvalid)
	}
	if r.Options.Rate > 0 && r.Options.Rate < float64(r.BatchSize) {
		return max(1, int(r.Options.Rate)), nil
	}
	return r.BatchSize, nil
}

// previewQuery counts the messages of a selection by reason, original topic, confidence and dead-letter topic. Its only
// parameters are those of the selection.
const previewQuery = `
	WITH matched AS (
	%SELECTION%
	)
	SELECT count(*) AS messages, coalesce(reason, '') AS reason, original_topic, confidence, any_value(id) AS sample
	FROM matched GROUP BY 2, 3, 4, dlq_topic_id ORDER BY messages DESC, original_topic, confidence, reason, dlq_topic_id`

// PreviewRedrive implements repository.Selections.
func (s *Lifecycle) PreviewRedrive(ctx context.Context, r repository.NewRedrive) ([]repository.SelectionCount, error) {
	selection, err := newSelection(ctx, s.scopes, r, 1)
	if err != nil {
		return nil, conn.Translate("preview a redrive", err)
	}
	var found []struct {
		Messages   int       `db:"messages"`
		Reason     string    `db:"reason"`
		Topic      string    `db:"original_topic"`
		Confidence string    `db:"confidence"`
		Sample     uuid.UUID `db:"sample"`
	}
	if err := s.db.SelectUnprepared(ctx, &found, selection.Within(previewQuery), selection.Values...); err != nil {
		return nil, conn.Translate("preview a redrive", err)
	}
	groups := make([]repository.SelectionCount, len(found))
	for i, f := range found {
		groups[i] = repository.SelectionCount{
			Messages: f.Messages, Reason: f.Reason, Topic: f.Topic, Confidence: entity.Confidence(f.Confidence), Sample: f.Sample,
		}
	}
	return groups, nil
}

// redriveColumns are the columns of a redriveRow. In the query, r must be the alias of dlq.redrives. The counts of a
// redrive are the sums of its batches' counts; a redrive of a million messages has a few thousand batches.
const redriveColumns = `
	r.id, r.action, r.state, r.note, r.actor, r.reason, r.request_id, r.trace_id, r.operation_id, r.call_id, r.selection, r.options,
	r.created_at, r.updated_at, r.ended_at, r.selected, r.left_out, r.canary_passed, r.waiting_since,
	r.forgiven_sent, r.forgiven_failed, r.forgiven_returned,
	b.succeeded, b.failed, b.dead, b.in_doubt, b.skipped, b.under_way, coalesce(w.reasons, '{}') AS reasons, t.returned,
	CASE WHEN r.action LIKE '%\_bounded' THEN (SELECT json_agg(` + boundJSON + ` ORDER BY t.topic) FROM dlq.redrive_topics t WHERE t.redrive_id = r.id) END AS bounds`

const redriveTables = `
	CROSS JOIN LATERAL (
		SELECT coalesce(sum(succeeded), 0) AS succeeded, coalesce(sum(failed), 0) AS failed, coalesce(sum(dead), 0) AS dead,
		       coalesce(sum(in_doubt), 0) AS in_doubt, coalesce(sum(skipped), 0) AS skipped,
		       coalesce(sum(cardinality(message_ids) - succeeded - failed - in_doubt - skipped)
		           FILTER (WHERE owner IS NOT NULL), 0) AS under_way
		FROM dlq.redrive_batches WHERE redrive_id = r.id
	) b
	CROSS JOIN LATERAL (
		SELECT jsonb_object_agg(key, n) AS reasons FROM (
			SELECT e.key, sum(e.value::int) AS n
			FROM dlq.redrive_batches b CROSS JOIN LATERAL jsonb_each_text(b.reason_counts) e
			WHERE b.redrive_id = r.id GROUP BY e.key
		) summed
	) w
	CROSS JOIN LATERAL (SELECT count(*) AS returned FROM dlq.returns WHERE redrive_id = r.id) t`

const redriveQuery = `SELECT ` + redriveColumns + ` FROM dlq.redrives r ` + redriveTables + ` WHERE r.id = $1`

// Redrive implements repository.Redrives.
func (s *Lifecycle) Redrive(ctx context.Context, id uuid.UUID) (entity.Redrive, error) {
	var found []redriveRow
	if err := s.db.Select(ctx, &found, redriveQuery, id); err != nil {
		return entity.Redrive{}, conn.Translate("get redrive", err)
	}
	if len(found) == 0 {
		return entity.Redrive{}, &entity.RedriveNotFoundError{ID: id}
	}
	r, err := found[0].redrive()
	if err != nil {
		return entity.Redrive{}, fmt.Errorf("get redrive %s: %w", id, err)
	}
	return r, nil
}

// redrivesQuery first selects the redrives of the page, and then adds up the batches of only these redrives.
const redrivesQuery = `
	SELECT ` + redriveColumns + `
	FROM (
		SELECT * FROM dlq.redrives
		WHERE (created_at, id) < (coalesce($1::timestamptz, 'infinity'), $2::uuid)
		  AND (cardinality($3::text[]) = 0 OR state = ANY ($3))%ACTOR%
		ORDER BY created_at DESC, id DESC LIMIT $4
	) r ` + redriveTables + `
	ORDER BY r.created_at DESC, r.id DESC`

// The condition on the actor is only in the second query, so that PostgreSQL plans each query with its own index.
var (
	redrivesOfAll   = strings.Replace(redrivesQuery, "%ACTOR%", "", 1)
	redrivesOfActor = strings.Replace(redrivesQuery, "%ACTOR%", " AND actor = $5", 1)
)

// Redrives implements repository.Selections.
func (s *Lifecycle) Redrives(ctx context.Context, q repository.RedriveQuery) ([]entity.Redrive, error) {
	before := sql.NullTime{Time: q.Before.CreatedAt, Valid: !q.Before.CreatedAt.IsZero()}
	query, args := redrivesOfAll, []any{before, q.Before.ID, redriveStates(q.States), q.Limit}
	if q.Actor != "" {
		query, args = redrivesOfActor, append(args, codec.Clean(q.Actor))
	}
	var found []redriveRow
	if err := s.db.Select(ctx, &found, query, args...); err != nil {
		return nil, conn.Translate("list redrives", err)
	}
	redrives := make([]entity.Redrive, len(found))
	for i := range found {
		var err error
		if redrives[i], err = found[i].redrive(); err != nil {
			return nil, fmt.Errorf("list redrives: %w", err)
		}
	}
	return redrives, nil
}

// ActiveRedrives implements repository.Redrives.
func (s *Lifecycle) ActiveRedrives(ctx context.Context) ([]uuid.UUID, error) {
	var ids []uuid.UUID
	err := s.db.Select(ctx, &ids, `
		SELECT id FROM (
			SELECT id, created_at FROM dlq.redrives WHERE state IN ('canary', 'running')
			UNION
			SELECT r.id, r.created_at FROM dlq.redrive_batches b JOIN dlq.redrives r ON r.id = b.redrive_id
			WHERE b.owner IS NOT NULL AND b.lease_expires_at <= coalesce($1::timestamptz, clock_timestamp())
		) due ORDER BY created_at, id`, s.db.Clock())
	return ids, conn.Translate("find active redrives", err)
}

// mustExist returns a *entity.RedriveNotFoundError if the redrive does not exist. It is called to find out why a
// statement changed no row.
func (s *Lifecycle) mustExist(ctx context.Context, where string, id uuid.UUID) error {
	var known []bool
	if err := s.db.Select(ctx, &known, `SELECT true FROM dlq.redrives WHERE id = $1`, id); err != nil {
		return conn.Translate(where, err)
	}
	if len(known) == 0 {
		return &entity.RedriveNotFoundError{ID: id}
	}
	return nil
}

type redriveRow struct {
	ID           uuid.UUID      `db:"id"`
	Action       string         `db:"action"`
	State        string         `db:"state"`
	Note         string         `db:"note"`
	Actor        string         `db:"actor"`
	Reason       sql.NullString `db:"reason"`
	RequestID    sql.NullString `db:"request_id"`
	TraceID      sql.NullString `db:"trace_id"`
	OperationID  uuid.NullUUID  `db:"operation_id"`
	CallID       uuid.NullUUID  `db:"call_id"`
	Selection    []byte         `db:"selection"`
	Options      []byte         `db:"options"`
	CreatedAt    time.Time      `db:"created_at"`
	UpdatedAt    time.Time      `db:"updated_at"`
	EndedAt      sql.NullTime   `db:"ended_at"`
	Selected     int            `db:"selected"`
	LeftOut      []byte         `db:"left_out"`
	CanaryPassed bool           `db:"canary_passed"`
	WaitingSince sql.NullTime   `db:"waiting_since"`

	ForgivenSent     int `db:"forgiven_sent"`
	ForgivenFailed   int `db:"forgiven_failed"`
	ForgivenReturned int `db:"forgiven_returned"`

	Succeeded int    `db:"succeeded"`
	Failed    int    `db:"failed"`
	Dead      int    `db:"dead"`
	InDoubt   int    `db:"in_doubt"`
	Skipped   int    `db:"skipped"`
	UnderWay  int    `db:"under_way"`
	Reasons   []byte `db:"reasons"`
	Returned  int    `db:"returned"`
	Bounds    []byte `db:"bounds"`
}

func (r *redriveRow) redrive() (entity.Redrive, error) {
	selection, err := unpackSelection(r.Selection)
	if err != nil {
		return entity.Redrive{}, err
	}
	options, err := unpackOptions(r.Options)
	if err != nil {
		return entity.Redrive{}, err
	}
	reasons := map[string]int{}
	if err := unpackReasons(reasons, r.LeftOut); err != nil {
		return entity.Redrive{}, err
	}
	leftOut := 0
	for _, n := range reasons {
		leftOut += n
	}
	if err := unpackReasons(reasons, r.Reasons); err != nil {
		return entity.Redrive{}, err
	}
	bounds, err := unpackBounds(r.Bounds)
	if err != nil {
		return entity.Redrive{}, err
	}
	return entity.Redrive{
		Bounded: codec.Bounded(r.Action), Bounds: bounds,
		ID: r.ID, Action: codec.RedriveAction(r.Action), State: entity.RedriveState(r.State), Note: r.Note,
		Cause: entity.AuditInfo{
			Actor: r.Actor, Reason: r.Reason.String, RequestID: r.RequestID.String, TraceID: r.TraceID.String,
			Operation: r.OperationID.UUID, Call: r.CallID.UUID,
		},
		Selection: selection, Options: options,
		CreatedAt: entity.TruncateTime(r.CreatedAt), UpdatedAt: entity.TruncateTime(r.UpdatedAt), EndedAt: codec.TimeOf(r.EndedAt),
		Selected: r.Selected, LeftOut: leftOut,
		Counts: entity.RedriveCounts{
			Succeeded: r.Succeeded, Failed: r.Failed, Dead: r.Dead, InDoubt: r.InDoubt, Skipped: r.Skipped + leftOut,
			UnderWay: r.UnderWay,
			Waiting:  r.Selected - leftOut - r.Succeeded - r.Failed - r.InDoubt - r.Skipped,
			Returned: r.Returned, Reasons: reasons,
		},
		CanaryPassed: r.CanaryPassed, WaitingSince: codec.TimeOf(r.WaitingSince),
		Forgiven: entity.Tally{Sent: r.ForgivenSent, Failed: r.ForgivenFailed, Returned: r.ForgivenReturned},
	}, nil
}

func redriveStates(states []entity.RedriveState) []byte {
	c := codec.NewArray(codec.OIDText, len(states), 10)
	for _, s := range states {
		c.Text(string(s))
	}
	return c.Arg()
}

// moveRedriveQuery locks the redrive first, so that each caller sees the change that the previous caller made. But the
// statement sees the batches as they were when it started, so a batch that was saved later still counts as unfinished.
// For this reason the process that saves the last batch runs the query again afterwards.
const moveRedriveQuery = `
	WITH held AS MATERIALIZED (
		SELECT id, state FROM dlq.redrives WHERE id = $1 FOR NO KEY UPDATE
	), moved AS (
		UPDATE dlq.redrives r SET
			state = $8, note = $9, updated_at = c.moment, waiting_since = NULL,
			ended_at = CASE WHEN $8 IN ('cancelled', 'finished') THEN c.moment END,
			canary_passed = r.canary_passed OR $10 OR held.state = 'stopped' AND $8 = 'running',
			forgiven_sent = CASE WHEN held.state = 'stopped' AND $8 = 'running' THEN t.sent ELSE r.forgiven_sent END,
			forgiven_failed = CASE WHEN held.state = 'stopped' AND $8 = 'running' THEN t.failed ELSE r.forgiven_failed END,
			forgiven_returned = CASE WHEN held.state = 'stopped' AND $8 = 'running' THEN t.returned ELSE r.forgiven_returned END
		FROM held, (SELECT coalesce($2::timestamptz, clock_timestamp()) AS moment) c, (
			SELECT coalesce(sum(succeeded + failed + in_doubt), 0) AS sent, coalesce(sum(failed), 0) AS failed,
			       (SELECT count(*) FROM dlq.returns WHERE redrive_id = $1) AS returned
			FROM dlq.redrive_batches WHERE redrive_id = $1
		) t
		WHERE r.id = held.id AND held.state = ANY ($11::text[])
		  AND ($8 <> 'finished' OR NOT EXISTS (SELECT FROM dlq.redrive_batches WHERE redrive_id = $1 AND NOT done))
		RETURNING r.id, held.state AS from_state, r.state, r.updated_at
	), audit AS (
		INSERT INTO dlq.audit (at, action, kind, object_id, from_state, to_state, actor, reason, request_id, trace_id, operation_id, call_id)
		SELECT updated_at, $12, 'redrive', id, from_state, state, ` + audit.CauseFrom3 + ` FROM moved
	)
	SELECT held.state, EXISTS (SELECT FROM moved) AS moved FROM held`

// MoveRedrive implements repository.Redrives.
func (s *Lifecycle) MoveRedrive(ctx context.Context, id uuid.UUID, m repository.RedriveMove) (entity.Redrive, error) {
	from := arrows(m)
	m.Cause = audit.WithOperation(m.Cause)
	args := append([]any{id, s.db.Clock()}, audit.CauseArgs(m.Cause)...)
	args = append(args, string(m.To), codec.Clean(m.Note), m.PassCanary, redriveStates(from), string(m.Action))
	var found []struct {
		State string `db:"state"`
		Moved bool   `db:"moved"`
	}
	if err := s.db.Select(ctx, &found, moveRedriveQuery, args...); err != nil {
		return entity.Redrive{}, conn.Translate("move redrive", err)
	}
	if len(found) == 0 {
		return entity.Redrive{}, &entity.RedriveNotFoundError{ID: id}
	}
	if before := entity.RedriveState(found[0].State); !found[0].Moved && !slices.Contains(from, before) {
		// The driver may have sent the statement twice. Then the second execution changes nothing, but the audit trail
		// contains an entry of the first execution.
		again, err := audit.ChangedBy(ctx, s.db, m.Cause.Operation, m.Action, []uuid.UUID{id})
		if err != nil {
			return entity.Redrive{}, conn.Translate("move redrive", err)
		}
		if len(again) > 0 {
			return s.Redrive(ctx, id)
		}
		return entity.Redrive{}, &entity.RedriveStateError{ID: id, From: before, To: m.To}
	}
	return s.Redrive(ctx, id)
}

// arrows returns the states from which m is allowed to move a redrive to the state m.To.
func arrows(m repository.RedriveMove) []entity.RedriveState {
	var from []entity.RedriveState
	for _, s := range entity.RedriveStates() {
		if s.CanMoveTo(m.To) && (len(m.From) == 0 || slices.Contains(m.From, s)) {
			from = append(from, s)
		}
	}
	return from
}

// saveWaitingQuery stores whether an active redrive waits, and why. It does not change an inactive redrive, whose note
// says why it is paused, stopped or ended.
const saveWaitingQuery = `
	UPDATE dlq.redrives SET note = $4,
		waiting_since = CASE WHEN $3 THEN coalesce(waiting_since, $2::timestamptz, clock_timestamp()) END
	WHERE id = $1 AND state IN ('canary', 'running')
	RETURNING true`

// SaveWaiting implements repository.Redrives.
func (s *Lifecycle) SaveWaiting(ctx context.Context, id uuid.UUID, waiting bool, note string) error {
	var noted []bool
	if err := s.db.Select(ctx, &noted, saveWaitingQuery, id, s.db.Clock(), waiting, codec.Clean(note)); err != nil {
		return conn.Translate("record that a redrive waits", err)
	}
	if len(noted) > 0 {
		return nil
	}
	return s.mustExist(ctx, "record that a redrive waits", id)
}
