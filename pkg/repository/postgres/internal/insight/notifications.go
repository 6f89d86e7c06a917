package insight

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
)

// Notifications implements the methods of repository.Notifications that store and claim notifications; Activity
// implements Events.
type Notifications struct{ db *conn.DB }

// NewNotifications returns Notifications that send their statements to db.
func NewNotifications(db *conn.DB) *Notifications { return &Notifications{db} }

// keepNotificationsQuery does nothing when the version of dlq.notification_state is no longer $2, because then another
// process has read the events. It locks error groups in the order of their ids, like the ingester's statements, so that
// they never deadlock.
const keepNotificationsQuery = `
	WITH held AS (
		UPDATE dlq.notification_state SET version = version + 1, mark_xid = $3::text::xid8, mark_id = $4,
			watched_at = coalesce($1::timestamptz, clock_timestamp())
		WHERE version = $2
		RETURNING coalesce($1::timestamptz, clock_timestamp()) AS moment
	), place AS MATERIALIZED (
		SELECT moment FROM held
	), locked AS MATERIALIZED (
		SELECT g.id FROM dlq.error_groups g
		WHERE g.id = ANY ($5::uuid[]) AND EXISTS (SELECT FROM place) ORDER BY g.id FOR NO KEY UPDATE
	), told AS (
		UPDATE dlq.error_groups g SET new_notified = true, notified_regressed_at = x.regressed_at
		FROM locked JOIN unnest($5::uuid[], $6::timestamptz[]) AS x (id, regressed_at) ON x.id = locked.id
		WHERE g.id = locked.id
	), spiked AS (
		INSERT INTO dlq.notification_spikes AS s (original_topic, seen_at)
		SELECT x.topic, place.moment FROM place, unnest($7::text[]) AS x (topic) ORDER BY 1
		ON CONFLICT (original_topic) DO UPDATE SET seen_at = excluded.seen_at
	), sinks AS (
		INSERT INTO dlq.notification_sinks (sink)
		SELECT DISTINCT x.sink FROM place, unnest($9::text[]) AS x (sink) ORDER BY 1
		ON CONFLICT DO NOTHING
	), fresh AS MATERIALIZED (
		SELECT x.*, place.moment, greatest(place.moment + $17::bigint * interval '1 microsecond', (
			SELECT max(o.taken_at) + $18::bigint * interval '1 microsecond' FROM dlq.notifications o
			WHERE o.sink = x.sink AND o.kind = x.kind AND o.object = x.object AND o.taken_at IS NOT NULL)) AS due_at
		FROM place, unnest($8::uuid[], $9::text[], $10::text[], $11::text[], $12::text[], $13::bigint[], $14::timestamptz[],
			$15::timestamptz[], $16::text[], $19::text[]) AS x (id, sink, kind, object, topics, events, first_at, last_at, detail, messages)
	), kept AS (
		INSERT INTO dlq.notifications AS n (id, sink, kind, object, topics, events, first_at, last_at, message_ids, detail,
			created_at, ready_at, due_at)
		SELECT id, sink, kind, object, ARRAY(SELECT jsonb_array_elements_text(topics::jsonb)), events, first_at, last_at,
			ARRAY(SELECT jsonb_array_elements_text(messages::jsonb)::uuid), detail::jsonb, moment, due_at, due_at
		FROM fresh ORDER BY sink, kind, object
		ON CONFLICT (sink, kind, object) WHERE open DO UPDATE SET
			topics = ARRAY(SELECT DISTINCT t.name FROM unnest(n.topics || excluded.topics) AS t (name) ORDER BY 1),
			events = n.events + excluded.events,
			first_at = least(n.first_at, excluded.first_at), last_at = greatest(n.last_at, excluded.last_at),
			message_ids = (n.message_ids || excluded.message_ids)[1:$20::int], detail = excluded.detail
	), quiet AS (
		DELETE FROM dlq.notification_spikes s USING place
		WHERE s.seen_at < place.moment - $21::bigint * interval '1 microsecond' AND s.original_topic <> ALL ($7::text[])
	), forgotten AS (
		DELETE FROM dlq.notifications WHERE id = ANY (ARRAY(
			SELECT o.id FROM dlq.notifications o, place WHERE o.ended_at < place.moment - $22::bigint * interval '1 microsecond'
			ORDER BY o.ended_at LIMIT 1000 FOR UPDATE OF o SKIP LOCKED))
	)
	SELECT true FROM place`

// KeepNotifications implements repository.Notifications.
func (s *Notifications) KeepNotifications(ctx context.Context, k repository.KeptNotifications) (bool, error) {
	version, xid, id, ok := cursorOfEvents(k.Seen.Cursor)
	if !ok {
		return false, nil
	}
	columns, err := notificationColumns(k.Notifications)
	if err != nil {
		return false, fmt.Errorf("store notifications: %w", err)
	}
	groups, regressed, topics := reportedColumns(k.Seen.List)
	args := append([]any{s.db.Clock(), version, xid, id, groups, regressed, topics}, columns.args[:9]...)
	args = append(args, k.Window.Microseconds(), k.Repeat.Microseconds(), columns.args[9], repository.MaxNotificationMessages,
		repository.SpikeOver.Microseconds(), repository.NotificationLife.Microseconds())
	var kept []bool
	if err := s.db.Select(ctx, &kept, keepNotificationsQuery, args...); err != nil {
		return false, conn.Translate("store notifications", err)
	}
	return len(kept) > 0, nil
}

// reportedColumns returns three arguments for keepNotificationsQuery: the error groups of the events, the times at
// which these groups regressed, and the topics with spikes.
func reportedColumns(events []repository.Event) (groups, regressed, topics []byte) {
	id, at, topic := codec.NewArray(codec.OIDUUID, len(events), 16), codec.NewArray(codec.OIDTimestamptz, len(events), 8), codec.NewArray(codec.OIDText, 8, 24)
	for _, e := range events {
		switch e.Kind {
		case repository.GroupNew, repository.GroupRegressed:
			id.UUID(e.Object)
			if e.RegressedAt.IsZero() {
				at.Null()
				continue
			}
			at.Time(e.RegressedAt)
		case repository.Spike:
			topic.Text(e.Topics[0])
		case repository.LoopStopped, repository.MessageDead, repository.RedriveFinished, repository.RedriveStopped:
		}
	}
	return id.Arg(), at.Arg(), topic.Arg()
}

type notificationArrays struct{ args []any }

func notificationColumns(notifications []repository.NewNotification) (notificationArrays, error) {
	n := len(notifications)
	ids, sinks, kinds, objects := codec.NewArray(codec.OIDUUID, n, 16), codec.NewArray(codec.OIDText, n, 16), codec.NewArray(codec.OIDText, n, 16), codec.NewArray(codec.OIDText, n, 36)
	topics, events, details := codec.NewArray(codec.OIDText, n, 64), codec.NewArray(codec.OIDInt8, n, 8), codec.NewArray(codec.OIDText, n, 256)
	first, last, messages := codec.NewArray(codec.OIDTimestamptz, n, 8), codec.NewArray(codec.OIDTimestamptz, n, 8), codec.NewArray(codec.OIDText, n, 128)
	for i := range notifications {
		f := &notifications[i]
		names, err := json.Marshal(codec.CleanAll(append([]string{}, f.Topics...)))
		if err != nil {
			return notificationArrays{}, err
		}
		named, err := json.Marshal(append([]uuid.UUID{}, f.MessageIDs[:min(len(f.MessageIDs), repository.MaxNotificationMessages)]...))
		if err != nil {
			return notificationArrays{}, err
		}
		ids.UUID(f.ID)
		sinks.Text(f.Sink)
		kinds.Text(string(f.Kind))
		objects.Text(f.Object)
		topics.Text(string(names))
		events.Int64(f.Events)
		first.Time(f.First)
		last.Time(f.Last)
		details.Text(string(f.Detail))
		messages.Text(string(named))
	}
	return notificationArrays{[]any{
		ids.Arg(), sinks.Arg(), kinds.Arg(), objects.Arg(), topics.Arg(), events.Arg(), first.Arg(), last.Arg(), details.Arg(), messages.Arg(),
	}}, nil
}

const notificationShown = `n.id, n.sink, n.kind, n.object, array_to_json(n.topics)::text AS topics, n.events, n.first_at, n.last_at,
	array_to_json(n.message_ids)::text AS message_ids, n.detail::text AS detail, n.created_at, n.attempts, n.last_error`

// claimNotificationQuery claims a notification for a sink. It waits for no lock: it skips a sink whose row is locked,
// because another process is claiming a notification for that sink.
const claimNotificationQuery = `
	WITH now AS MATERIALIZED (
		SELECT coalesce($1::timestamptz, clock_timestamp()) AS moment
	), gate AS MATERIALIZED (
		SELECT s.sink FROM dlq.notification_sinks s WHERE s.sink = $2 AND s.next_at <= (SELECT moment FROM now)
		FOR NO KEY UPDATE SKIP LOCKED
	), due AS MATERIALIZED (
		SELECT n.id FROM dlq.notifications n
		WHERE n.sink = $2 AND EXISTS (SELECT FROM gate) AND n.ended_at IS NULL AND n.due_at <= (SELECT moment FROM now)
		  AND (n.claim_id IS NULL OR n.claim_expires_at <= (SELECT moment FROM now))
		ORDER BY n.due_at, n.id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED
	), paced AS (
		UPDATE dlq.notification_sinks SET next_at = (SELECT moment FROM now) + $5::bigint * interval '1 microsecond'
		WHERE sink = (SELECT sink FROM gate) AND EXISTS (SELECT FROM due)
	)
	UPDATE dlq.notifications n SET open = false, attempts = n.attempts + 1, taken_at = now.moment, claim_id = $3,
		claim_expires_at = now.moment + $4::bigint * interval '1 microsecond'
	FROM due, now WHERE n.id = due.id
	RETURNING ` + notificationShown

type notificationRow struct {
	ID         uuid.UUID `db:"id"`
	Sink       string    `db:"sink"`
	Kind       string    `db:"kind"`
	Object     string    `db:"object"`
	Topics     string    `db:"topics"`
	Events     int64     `db:"events"`
	First      time.Time `db:"first_at"`
	Last       time.Time `db:"last_at"`
	MessageIDs string    `db:"message_ids"`
	Detail     string    `db:"detail"`
	CreatedAt  time.Time `db:"created_at"`
	Attempts   int       `db:"attempts"`
	LastError  string    `db:"last_error"`
}

func (r *notificationRow) notification() (repository.Notification, error) {
	n := repository.Notification{
		NewNotification: repository.NewNotification{
			ID: r.ID, Sink: r.Sink, Kind: repository.EventKind(r.Kind), Object: r.Object, Events: r.Events,
			First: entity.TruncateTime(r.First), Last: entity.TruncateTime(r.Last), Detail: []byte(r.Detail),
		},
		CreatedAt: entity.TruncateTime(r.CreatedAt), Attempts: r.Attempts, LastError: r.LastError,
	}
	return n, errors.Join(json.Unmarshal([]byte(r.Topics), &n.Topics), json.Unmarshal([]byte(r.MessageIDs), &n.MessageIDs))
}

// ClaimNotification implements repository.Notifications.
func (s *Notifications) ClaimNotification(ctx context.Context, c repository.NotificationClaim) (repository.Notification, bool, error) {
	var found []notificationRow
	if err := s.db.Select(ctx, &found, claimNotificationQuery,
		s.db.Clock(), codec.Clean(c.Sink), c.ID, c.Lease.Microseconds(), c.Pace.Microseconds()); err != nil {
		return repository.Notification{}, false, conn.Translate("claim a notification", err)
	}
	if len(found) == 0 {
		return repository.Notification{}, false, nil
	}
	n, err := found[0].notification()
	if err != nil {
		return repository.Notification{}, false, fmt.Errorf("claim a notification: %w", err)
	}
	return n, true, nil
}

// settleNotificationQuery locks first the notification and then its sink. It cannot deadlock with claims, because a
// claim never waits for a lock.
const settleNotificationQuery = `
	WITH now AS MATERIALIZED (
		SELECT coalesce($1::timestamptz, clock_timestamp()) AS moment
	), settled AS (
		UPDATE dlq.notifications n SET claim_id = NULL, claim_expires_at = NULL, last_error = $5, sent = $4,
			ended_at = CASE WHEN $4 THEN now.moment END,
			due_at = CASE WHEN $4 THEN n.due_at ELSE now.moment + $6::bigint * interval '1 microsecond' END
		FROM now WHERE n.id = $2 AND n.claim_id = $3 AND n.ended_at IS NULL
		RETURNING n.sink
	)
	UPDATE dlq.notification_sinks SET next_at = greatest(next_at, (SELECT moment FROM now) + $7::bigint * interval '1 microsecond')
	WHERE NOT $4 AND sink = (SELECT sink FROM settled)`

// SettleNotification implements repository.Notifications.
func (s *Notifications) SettleNotification(ctx context.Context, r repository.NotificationResult) error {
	return conn.Translate("settle a notification", s.db.Exec(ctx, settleNotificationQuery,
		s.db.Clock(), r.Notification, r.Claim, r.Sent, codec.Clean(r.Error), r.RetryIn.Microseconds(), r.Pause.Microseconds()))
}

const giveUpNotificationsQuery = `
	WITH now AS MATERIALIZED (
		SELECT coalesce($1::timestamptz, clock_timestamp()) AS moment
	), old AS MATERIALIZED (
		SELECT n.id FROM dlq.notifications n, now
		WHERE n.ended_at IS NULL AND n.created_at < now.moment - $2::bigint * interval '1 microsecond'
		  AND (n.claim_id IS NULL OR n.claim_expires_at <= now.moment)
		ORDER BY n.created_at, n.id LIMIT $3 FOR NO KEY UPDATE OF n SKIP LOCKED
	), ended AS (
		UPDATE dlq.notifications n SET open = false, ended_at = now.moment FROM old, now WHERE n.id = old.id
		RETURNING ` + notificationShown + `
	)
	SELECT * FROM ended ORDER BY created_at, id`

// GiveUpNotifications implements repository.Notifications.
func (s *Notifications) GiveUpNotifications(ctx context.Context, after time.Duration, limit int) ([]repository.Notification, error) {
	var found []notificationRow
	if err := s.db.Select(ctx, &found, giveUpNotificationsQuery, s.db.Clock(), after.Microseconds(), limit); err != nil {
		return nil, conn.Translate("give up notifications", err)
	}
	ended := make([]repository.Notification, len(found))
	for i := range found {
		var err error
		if ended[i], err = found[i].notification(); err != nil {
			return nil, fmt.Errorf("give up notifications: %w", err)
		}
	}
	return ended, nil
}

const waitingNotificationsQuery = `
	SELECT n.sink, count(*) AS notifications,
		greatest(0, extract(epoch FROM coalesce($1::timestamptz, clock_timestamp()) - min(n.ready_at)))::float8 AS overdue
	FROM dlq.notifications n WHERE n.ended_at IS NULL GROUP BY 1 ORDER BY 1`

// WaitingNotifications implements repository.Notifications.
func (s *Notifications) WaitingNotifications(ctx context.Context) ([]repository.WaitingNotifications, error) {
	var found []struct {
		Sink          string  `db:"sink"`
		Notifications int64   `db:"notifications"`
		Overdue       float64 `db:"overdue"`
	}
	if err := s.db.Select(ctx, &found, waitingNotificationsQuery, s.db.Clock()); err != nil {
		return nil, conn.Translate("count waiting notifications", err)
	}
	waiting := make([]repository.WaitingNotifications, len(found))
	for i, f := range found {
		waiting[i] = repository.WaitingNotifications{
			Sink: f.Sink, Notifications: f.Notifications, Overdue: time.Duration(f.Overdue * float64(time.Second)).Round(time.Microsecond),
		}
	}
	return waiting, nil
}
