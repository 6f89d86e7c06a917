package insight

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
)

// Activity finds events for notifications, and counts arrivals.
type Activity struct {
	db       *conn.DB
	redrives redriveReader
}

// redriveReader reads the redrives that have ended, for the events of their ends.
type redriveReader interface {
	Redrive(ctx context.Context, id uuid.UUID) (entity.Redrive, error)
}

// NewActivity returns an Activity that sends its statements to db.
func NewActivity(db *conn.DB, redrives redriveReader) *Activity { return &Activity{db, redrives} }

// notificationStateQuery returns up to which audit entry events were read. stale is true when no process has completed
// a call of Events for too long. stale is also true when the stored transaction id is in the future: then the data were
// moved to another server, which counts transactions from the beginning.
const notificationStateQuery = `
	SELECT version, mark_xid::text AS mark_xid, mark_id, began_at, n.moment,
		watched_at IS NULL OR watched_at < n.moment - $2::bigint * interval '1 microsecond'
			OR mark_xid > pg_snapshot_xmax(pg_current_snapshot()) AS stale
	FROM dlq.notification_state, (SELECT coalesce($1::timestamptz, clock_timestamp()) AS moment) n`

// beginNotificationsQuery makes the reading of events begin with the oldest open transaction. It skips all events of
// transactions that have ended.
const beginNotificationsQuery = `
	UPDATE dlq.notification_state SET version = version + 1, mark_xid = pg_snapshot_xmin(pg_current_snapshot()), mark_id = 0,
		began_at = coalesce($1::timestamptz, clock_timestamp()), watched_at = coalesce($1::timestamptz, clock_timestamp())
	WHERE version = $2`

type notificationState struct {
	Version int64        `db:"version"`
	Xid     string       `db:"mark_xid"`
	ID      int64        `db:"mark_id"`
	BeganAt sql.NullTime `db:"began_at"`
	Moment  time.Time    `db:"moment"`
	Stale   bool         `db:"stale"`
}

// trailEventsQuery reads entries of the audit trail in the order of their transaction ids. It reads only entries of
// transactions that are older than every open transaction, because an open transaction could still add an entry that
// comes before them in this order. The ids of entries do not give this order, because an id is assigned before its
// transaction ends.
var trailEventsQuery = `
	SELECT a.xid::text AS xid, a.id, a.at, a.kind, a.to_state, a.action, a.actor, a.object_id,
		coalesce(nullif(m.original_topic, ''), t.name, '') AS topic, ` + mutedIn("m") + ` AS muted
	FROM (
		SELECT xid, id, at, kind, to_state, action, actor, object_id FROM dlq.audit
		WHERE xid IS NOT NULL AND to_state IN ('DEAD', 'stopped', 'finished')
		  AND (xid, id) > ($1::text::xid8, $2::bigint) AND xid < pg_snapshot_xmin(pg_current_snapshot())
		ORDER BY xid, id LIMIT $3
	) a
	LEFT JOIN dlq.dlq_messages m ON a.kind = 'message' AND m.id = a.object_id
	LEFT JOIN dlq.topics t ON t.id = m.dlq_topic_id
	ORDER BY a.xid, a.id`

type trailEventRow struct {
	Xid    string    `db:"xid"`
	ID     int64     `db:"id"`
	At     time.Time `db:"at"`
	Kind   string    `db:"kind"`
	To     string    `db:"to_state"`
	Action string    `db:"action"`
	Actor  string    `db:"actor"`
	Object uuid.UUID `db:"object_id"`
	Topic  string    `db:"topic"`
	Muted  bool      `db:"muted"`
}

// groupEventsQuery finds new and regressed error groups. The topics of a group are those in which messages have arrived
// since the event. The event is muted when the group is muted in all of these topics; otherwise the event names the
// topics in which the group is not muted.
var groupEventsQuery = `
	SELECT g.id, g.class, g.title, NOT EXISTS (
		SELECT FROM dlq.group_arrivals a
		WHERE a.group_id = g.id AND a.hour = '-infinity' AND a.messages > 0 AND a.last_seen >= e.at AND NOT ` + mutedIn("a") + `
	) AS muted, NOT g.new_notified AS new, g.regressed_at, e.at, array_to_json(ARRAY(
		SELECT DISTINCT a.original_topic FROM dlq.group_arrivals a
		WHERE a.group_id = g.id AND a.hour = '-infinity' AND a.messages > 0 AND a.original_topic > '' AND a.last_seen >= e.at
		  AND NOT ` + mutedIn("a") + `
		ORDER BY 1))::text AS topics
	FROM dlq.error_groups g
	CROSS JOIN LATERAL (SELECT CASE WHEN g.new_notified THEN coalesce(g.regressed_at, g.first_seen) ELSE g.first_seen END AS at) e
	WHERE g.first_seen IS NOT NULL AND (NOT g.new_notified OR g.notified_regressed_at IS DISTINCT FROM g.regressed_at)
	ORDER BY g.id LIMIT $1`

type groupEventRow struct {
	ID     uuid.UUID `db:"id"`
	Class  string    `db:"class"`
	Title  string    `db:"title"`
	Muted  bool      `db:"muted"`
	New    bool      `db:"new"`
	At     time.Time `db:"at"`
	Topics string    `db:"topics"`

	RegressedAt sql.NullTime `db:"regressed_at"`
}

// spikeEventsQuery finds topics with many more arrivals in the last minutes than usual. For topics with enough arrivals
// in these minutes, it also reads the arrivals of each hour of the week before.
const spikeEventsQuery = `
	WITH asked AS MATERIALIZED (
		SELECT moment, date_bin(interval '5 minutes', moment - $4::bigint * interval '1 microsecond', 'epoch') AS recent,
			date_bin(interval '1 hour', moment, 'epoch') - interval '1 hour' AS until,
			moment - $5::bigint * interval '1 microsecond' AS since
		FROM (SELECT coalesce($1::timestamptz, clock_timestamp()) AS moment) n
	), recent AS MATERIALIZED (
		SELECT original_topic, sum(arrived)::bigint AS arrived FROM dlq.activity
		WHERE minutes = 5::smallint AND at >= (SELECT recent FROM asked) AND original_topic > ''
		GROUP BY 1 HAVING sum(arrived) >= $2::bigint
	)
	SELECT r.original_topic AS topic, r.arrived, u.usual,
		coalesce(s.seen_at > asked.moment - $6::bigint * interval '1 microsecond', false) AS again
	FROM recent r CROSS JOIN asked
	CROSS JOIN LATERAL (
		SELECT coalesce(sum(a.arrived) / greatest(1, extract(epoch FROM asked.until - min(a.at)) / 3600) / 4, 0)::float8 AS usual
		FROM dlq.activity a
		WHERE a.original_topic = r.original_topic AND a.minutes = 60::smallint AND a.at >= asked.since AND a.at < asked.until
	) u
	LEFT JOIN dlq.notification_spikes s ON s.original_topic = r.original_topic
	WHERE r.arrived > $3::float8 * u.usual
	ORDER BY 1`

type spikeEventRow struct {
	Topic   string  `db:"topic"`
	Arrived int64   `db:"arrived"`
	Usual   float64 `db:"usual"`
	Again   bool    `db:"again"`
}

// Events implements repository.Notifications. It first reads the version of dlq.notification_state. If another process
// changes this state afterwards, KeepNotifications stores nothing.
func (s *Activity) Events(ctx context.Context, q repository.EventQuery) (repository.Events, error) {
	state, err := s.notificationState(ctx, q.Patience)
	if err != nil {
		return repository.Events{}, conn.Translate("find events", err)
	}
	found := repository.Events{Now: entity.TruncateTime(state.Moment), Since: codec.TimeOf(state.BeganAt)}
	if err := s.trailEvents(ctx, &found, &state, q.Limit); err != nil {
		return repository.Events{}, conn.Translate("find events", err)
	}
	if err := s.groupEvents(ctx, &found, q.Limit); err != nil {
		return repository.Events{}, conn.Translate("find events", err)
	}
	if q.Spikes != nil {
		if err := s.spikeEvents(ctx, &found, *q.Spikes); err != nil {
			return repository.Events{}, conn.Translate("find events", err)
		}
	}
	found.Cursor = fmt.Sprintf("%d:%s:%d", state.Version, state.Xid, state.ID)
	return found, nil
}

func (s *Activity) notificationState(ctx context.Context, patience time.Duration) (notificationState, error) {
	var found []notificationState
	for range 3 { // a stale state must be reset first, and another process may reset it at the same time
		if err := s.db.Select(ctx, &found, notificationStateQuery, s.db.Clock(), patience.Microseconds()); err != nil {
			return notificationState{}, err
		}
		if len(found) == 0 {
			return notificationState{}, fmt.Errorf("dlq.notification_state is empty: %w", entity.ErrUnavailable)
		}
		if !found[0].Stale {
			break
		}
		if err := s.db.Exec(ctx, beginNotificationsQuery, s.db.Clock(), found[0].Version); err != nil {
			return notificationState{}, err
		}
	}
	return found[0], nil
}

// trailEvents reads at most limit audit entries after the last entry that state names. It adds their events to found,
// and makes state name the last entry that it has read.
func (s *Activity) trailEvents(ctx context.Context, found *repository.Events, state *notificationState, limit int) error {
	var rows []trailEventRow
	if err := s.db.Select(ctx, &rows, trailEventsQuery, state.Xid, state.ID, limit+1); err != nil {
		return err
	}
	if len(rows) > limit {
		found.More = true
		rows = rows[:limit]
	}
	for i := range rows {
		r := &rows[i]
		event := repository.Event{At: entity.TruncateTime(r.At), Object: r.Object, Kind: r.eventKind(), Muted: r.Muted}
		if r.Topic != "" {
			event.Topics = []string{r.Topic}
		}
		if event.Kind == "" {
			continue
		}
		if r.Kind == string(entity.KindRedrive) {
			if err := s.ofRedrive(ctx, &event, entity.RedriveState(r.To)); err != nil {
				return err
			}
		}
		found.List = append(found.List, event)
	}
	if n := len(rows); n > 0 {
		state.Xid, state.ID = rows[n-1].Xid, rows[n-1].ID
	}
	return nil
}

func (r *trailEventRow) eventKind() repository.EventKind {
	switch kind := entity.Kind(r.Kind); {
	case kind == entity.KindMessage && r.Action == string(entity.ActionDead) && r.Actor == entity.ActorIngest:
		return repository.LoopStopped
	case kind == entity.KindMessage && r.To == string(entity.Dead):
		return repository.MessageDead
	case kind == entity.KindRedrive && r.To == string(entity.RedriveFinished):
		return repository.RedriveFinished
	case kind == entity.KindRedrive && r.To == string(entity.RedriveStopped):
		return repository.RedriveStopped
	}
	return ""
}

const redriveTopicsQuery = `
	SELECT DISTINCT p.topic FROM dlq.redrive_batches b
	CROSS JOIN LATERAL jsonb_to_recordset(b.targets) AS p (topic text)
	WHERE b.redrive_id = $1 AND p.topic > ''
	UNION SELECT selection->>'topic' FROM dlq.redrives WHERE id = $1 AND selection->>'topic' > ''
	ORDER BY 1`

// ofRedrive adds the end of the redrive and its topics to an event. It adds nothing when the redrive was deleted.
func (s *Activity) ofRedrive(ctx context.Context, event *repository.Event, state entity.RedriveState) error {
	r, err := s.redrives.Redrive(ctx, event.Object)
	if errors.Is(err, entity.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	event.Redrive = repository.EndOf(r, state)
	return s.db.Select(ctx, &event.Topics, redriveTopicsQuery, event.Object)
}

func (s *Activity) groupEvents(ctx context.Context, found *repository.Events, limit int) error {
	var rows []groupEventRow
	if err := s.db.Select(ctx, &rows, groupEventsQuery, limit+1); err != nil {
		return err
	}
	if len(rows) > limit {
		found.More = true
		rows = rows[:limit]
	}
	for _, r := range rows {
		event := repository.Event{
			Kind: repository.GroupRegressed, At: entity.TruncateTime(r.At), Object: r.ID, Muted: r.Muted, Class: r.Class, Title: r.Title,
			RegressedAt: codec.TimeOf(r.RegressedAt),
		}
		if r.New {
			event.Kind = repository.GroupNew
		}
		if err := json.Unmarshal([]byte(r.Topics), &event.Topics); err != nil {
			return err
		}
		found.List = append(found.List, event)
	}
	return nil
}

func (s *Activity) spikeEvents(ctx context.Context, found *repository.Events, rule repository.SpikeRule) error {
	var rows []spikeEventRow
	if err := s.db.Select(ctx, &rows, spikeEventsQuery, s.db.Clock(), rule.Minimum, rule.Factor,
		repository.SpikeRecent.Microseconds(), repository.SpikeUsual.Microseconds(), repository.SpikeOver.Microseconds()); err != nil {
		return err
	}
	for _, r := range rows {
		found.List = append(found.List, repository.Event{
			Kind: repository.Spike, At: found.Now, Topics: []string{r.Topic}, Arrived: r.Arrived, Usual: r.Usual, Again: r.Again,
		})
	}
	return nil
}

// cursorOfEvents parses the text in repository.Events.Cursor: the version of the state, a transaction id, and the id of
// an audit entry.
func cursorOfEvents(text string) (version int64, xid string, id int64, ok bool) {
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return 0, "", 0, false
	}
	version, errVersion := strconv.ParseInt(parts[0], 10, 64)
	_, errXid := strconv.ParseUint(parts[1], 10, 64)
	id, errID := strconv.ParseInt(parts[2], 10, 64)
	return version, parts[1], id, errVersion == nil && errXid == nil && errID == nil
}

// activityTopicsQuery returns each original topic of dlq.activity once, by going from one topic to the next along an
// index. It does not return the empty name, which stands for messages of unknown origin.
const activityTopicsQuery = `
	WITH RECURSIVE step AS (
		(SELECT original_topic AS name FROM dlq.activity WHERE original_topic > '' ORDER BY original_topic LIMIT 1)
		UNION ALL
		SELECT (SELECT n.original_topic FROM dlq.activity n WHERE n.original_topic > step.name
			ORDER BY n.original_topic LIMIT 1)
		FROM step WHERE step.name IS NOT NULL
	)
	SELECT name FROM step WHERE name IS NOT NULL`

// arrivalsQuery also returns until when arrivals are counted, as IndexedUntil does. It returns this time even when
// there are no arrivals, so it has at least one row.
var (
	arrivalsQuery         = arrivalsWhere("")
	arrivalsOfTopicsQuery = arrivalsWhere("a.original_topic = ANY ($5::text[]) AND ")
)

func arrivalsWhere(condition string) string {
	return `
	SELECT c.found_until, p.at, coalesce(p.arrived, 0) AS arrived, coalesce(p.returned, 0) AS returned
	FROM dlq.search_index c LEFT JOIN (
		SELECT date_bin($4::bigint * interval '1 microsecond', a.at, $2::timestamptz) AS at,
			sum(a.arrived)::bigint AS arrived, sum(a.returned)::bigint AS returned
		FROM dlq.activity a
		WHERE ` + condition + `a.minutes = $1::smallint AND a.at >= $2::timestamptz AND a.at < $3::timestamptz
		GROUP BY 1
	) p ON true`
}

type arrivalsRow struct {
	FoundUntil sql.NullTime `db:"found_until"`
	At         sql.NullTime `db:"at"`
	Arrived    int64        `db:"arrived"`
	Returned   int64        `db:"returned"`
}

// Arrivals implements repository.Activity.
func (s *Activity) Arrivals(ctx context.Context, q repository.ArrivalsQuery) (repository.Arrivals, error) {
	query, args := arrivalsQuery, []any{int(q.Kept().Minutes()), q.Since.UTC(), q.Until.UTC(), q.Step.Microseconds()}
	if q.Topic != "" || q.Visible != nil {
		topics, err := s.activeTopics(ctx, q)
		if err != nil {
			return repository.Arrivals{}, conn.Translate("count arrivals", err)
		}
		query, args = arrivalsOfTopicsQuery, append(args, codec.TextArray(topics))
	}
	var found []arrivalsRow
	if err := s.db.Select(ctx, &found, query, args...); err != nil {
		return repository.Arrivals{}, conn.Translate("count arrivals", err)
	}
	came := repository.Arrivals{Points: q.Empty()}
	for _, r := range found {
		came.Until = codec.TimeOf(r.FoundUntil)
		if r.At.Valid {
			q.Add(came.Points, r.At.Time, r.Arrived, r.Returned)
		}
	}
	return came, nil
}

// activeTopics returns the topics whose arrivals a query counts. They are read before the main query, because topic
// patterns cannot be matched in SQL.
func (s *Activity) activeTopics(ctx context.Context, q repository.ArrivalsQuery) ([]string, error) {
	if q.Topic != "" {
		if q.Topic != codec.Clean(q.Topic) || q.Visible != nil && !q.Visible.Match(q.Topic) {
			return nil, nil
		}
		return []string{q.Topic}, nil
	}
	var names []string
	err := s.db.Select(ctx, &names, activityTopicsQuery)
	return slices.DeleteFunc(names, func(name string) bool { return !q.Visible.Match(name) }), err
}
