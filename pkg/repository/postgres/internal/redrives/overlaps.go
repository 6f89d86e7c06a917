package redrives

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
)

// waitingIn is the SQL that lists the messages of b, a row of dlq.redrive_batches, each with its result. A message
// without a result waits to be processed.
const waitingIn = `unnest(b.message_ids, b.results) AS o (id, result)`

// overlapsQuery counts, for each redrive in the list %OTHERS%, its waiting messages that the query %MINE% also returns.
const overlapsQuery = `
	SELECT r.id, r.action, r.state, r.actor, r.created_at, count(*) AS messages
	FROM dlq.redrives r
	JOIN dlq.redrive_batches b ON b.redrive_id = r.id AND NOT b.done
	CROSS JOIN LATERAL ` + waitingIn + `
	JOIN (%MINE%) mine ON mine.id = o.id
	WHERE r.id = ANY (%OTHERS%::uuid[]) AND coalesce(o.result, 0) = 0
	GROUP BY r.id ORDER BY r.created_at, r.id`

type overlapRow struct {
	ID        uuid.UUID `db:"id"`
	Action    string    `db:"action"`
	State     string    `db:"state"`
	Actor     string    `db:"actor"`
	CreatedAt time.Time `db:"created_at"`
	Messages  int       `db:"messages"`
}

// Overlaps implements repository.Selections.
func (s *Lifecycle) Overlaps(ctx context.Context, r repository.NewRedrive) ([]entity.Overlap, error) {
	const where = "find redrives of the same messages"
	others, err := s.unfinished(ctx, r.ID)
	if err != nil || len(others) == 0 {
		return nil, err
	}
	selection, err := newSelection(ctx, s.scopes, r, 1)
	if err != nil {
		return nil, conn.Translate(where, err)
	}
	list := selection.Arg(codec.UUIDArray(others))
	query := strings.NewReplacer("%MINE%", "SELECT id FROM (%SELECTION%) s WHERE reason IS NULL", "%OTHERS%", list).Replace(overlapsQuery)
	var found []overlapRow
	err = s.db.SelectUnprepared(ctx, &found, selection.Within(query), selection.Values...)
	return overlapsOf(found), conn.Translate(where, err)
}

// redriveOverlapsQuery counts, for each redrive in $2, the messages that have no result yet both in that redrive and in
// the redrive $1.
var redriveOverlapsQuery = strings.NewReplacer("%MINE%", `
		SELECT o.id FROM dlq.redrive_batches b CROSS JOIN LATERAL `+waitingIn+`
		WHERE b.redrive_id = $1 AND NOT b.done AND coalesce(o.result, 0) = 0`, "%OTHERS%", "$2").Replace(overlapsQuery)

// RedriveOverlaps implements repository.Selections.
func (s *Lifecycle) RedriveOverlaps(ctx context.Context, id uuid.UUID) ([]entity.Overlap, error) {
	const where = "find redrives of the same messages"
	others, err := s.unfinished(ctx, id)
	if err != nil {
		return nil, err
	}
	var found []overlapRow
	if len(others) > 0 {
		if err := s.db.SelectUnprepared(ctx, &found, redriveOverlapsQuery, id, codec.UUIDArray(others)); err != nil {
			return nil, conn.Translate(where, err)
		}
	}
	if len(found) == 0 {
		return nil, s.mustExist(ctx, where, id)
	}
	return overlapsOf(found), nil
}

// unfinished returns the ids of all redrives that have not ended, except the given one. Usually there are none, and
// then no messages need to be compared.
func (s *Lifecycle) unfinished(ctx context.Context, but uuid.UUID) ([]uuid.UUID, error) {
	var ids []uuid.UUID
	err := s.db.Select(ctx, &ids, `
		SELECT id FROM dlq.redrives WHERE state IN ('canary', 'running', 'paused', 'stopped') AND id <> $1`, but)
	return ids, conn.Translate("find unfinished redrives", err)
}

func overlapsOf(found []overlapRow) []entity.Overlap {
	var overlaps []entity.Overlap
	for _, f := range found {
		overlaps = append(overlaps, entity.Overlap{
			ID: f.ID, Action: codec.RedriveAction(f.Action), State: entity.RedriveState(f.State), Actor: f.Actor, CreatedAt: f.CreatedAt, Messages: f.Messages,
		})
	}
	return overlaps
}

// returnedErrorsQuery counts the returns of a redrive by their error groups and topics; returns that were deleted or
// archived are counted together, without group and topics. It reads at most $2 returns, because open pages of the
// console send it every few seconds. It reads the returns with the newest parents, which come last in the index.
const returnedErrorsQuery = `
	SELECT m.group_id, coalesce(g.class, '') AS class, coalesce(g.title, '') AS title,
	       coalesce(m.original_topic, '') AS topic, coalesce(t.name, '') AS dlq_topic, count(*) AS messages
	FROM (SELECT child_id FROM dlq.returns WHERE redrive_id = $1 ORDER BY parent_id DESC LIMIT $2) r
	LEFT JOIN dlq.dlq_messages m ON m.id = r.child_id
	LEFT JOIN dlq.error_groups g ON g.id = m.group_id
	LEFT JOIN dlq.topics t ON t.id = m.dlq_topic_id
	GROUP BY m.group_id, g.class, g.title, m.original_topic, t.name
	ORDER BY messages DESC, m.group_id, topic`

// ReturnedErrors implements repository.Selections.
func (s *Results) ReturnedErrors(ctx context.Context, id uuid.UUID) ([]entity.ReturnedError, error) {
	var found []struct {
		Group    uuid.NullUUID `db:"group_id"`
		Class    string        `db:"class"`
		Title    string        `db:"title"`
		Topic    string        `db:"topic"`
		DLQTopic string        `db:"dlq_topic"`
		Messages int           `db:"messages"`
	}
	if err := s.db.Select(ctx, &found, returnedErrorsQuery, id, repository.MaxReturnedErrors); err != nil {
		return nil, conn.Translate("group the returns of a redrive", err)
	}
	if len(found) == 0 {
		return nil, s.lifecycle.mustExist(ctx, "group the returns of a redrive", id)
	}
	var list []entity.ReturnedError
	for _, f := range found {
		list = append(list, entity.ReturnedError{
			Group: f.Group.UUID, Class: f.Class, Title: f.Title, Topic: f.Topic, DLQTopic: f.DLQTopic, Messages: f.Messages,
		})
	}
	return list, nil
}
