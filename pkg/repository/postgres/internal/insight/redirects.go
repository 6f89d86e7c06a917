package insight

import (
	"context"
	"database/sql"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/audit"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
)

// RedirectStore implements repository.Redirects.
type RedirectStore struct{ db *conn.DB }

// NewRedirectStore returns a RedirectStore that sends its statements to db.
func NewRedirectStore(db *conn.DB) *RedirectStore { return &RedirectStore{db} }

type redirectRow struct {
	Topic     string         `db:"topic"`
	Target    string         `db:"target"`
	Version   int64          `db:"version"`
	Reason    sql.NullString `db:"reason"`
	UpdatedAt sql.NullTime   `db:"updated_at"`
	UpdatedBy string         `db:"updated_by"`
}

func (r *redirectRow) redirect() entity.Redirect {
	return entity.Redirect{
		Topic: r.Topic, Target: r.Target, Version: r.Version, Reason: r.Reason.String,
		UpdatedAt: codec.TimeOf(r.UpdatedAt), UpdatedBy: r.UpdatedBy,
	}
}

const redirectColumns = `topic, target, version, reason, updated_at, updated_by`

// Redirects implements repository.Redirects.
func (s *RedirectStore) Redirects(ctx context.Context) ([]entity.Redirect, error) {
	var found []redirectRow
	if err := s.db.Select(ctx, &found, `SELECT `+redirectColumns+` FROM dlq.redirects ORDER BY topic COLLATE "C"`); err != nil {
		return nil, conn.Translate("list redirects", err)
	}
	redirects := make([]entity.Redirect, len(found))
	for i := range found {
		redirects[i] = found[i].redirect()
	}
	return redirects, nil
}

// RedirectTargets implements repository.Redirects.
func (s *RedirectStore) RedirectTargets(ctx context.Context, topics []string) (map[string]string, error) {
	if len(topics) == 0 {
		return nil, nil
	}
	var found []struct {
		Topic  string `db:"topic"`
		Target string `db:"target"`
	}
	if err := s.db.Select(ctx, &found, `SELECT topic, target FROM dlq.redirects WHERE topic = ANY ($1::text[])`, codec.TextArray(topics)); err != nil {
		return nil, conn.Translate("find redirects", err)
	}
	targets := make(map[string]string, len(found))
	for _, f := range found {
		targets[f.Topic] = f.Target
	}
	return targets, nil
}

// saveRedirectQuery changes nothing when $10 is not NULL and not the present version of the redirect, or when the same
// operation has made the change already. The step saved reads from the step old, so that PostgreSQL runs old first and
// the audit entry contains the earlier target.
const saveRedirectQuery = `
	WITH old AS MATERIALIZED (
		SELECT target, version FROM dlq.redirects WHERE topic = $1 FOR UPDATE
	), saved AS (
		INSERT INTO dlq.redirects AS r (topic, target, reason, updated_at, updated_by)
		SELECT $1::text, $9::text, $4::text, coalesce($2::timestamptz, clock_timestamp()), $3::text
		FROM (SELECT) one LEFT JOIN old ON true
		WHERE ($10::bigint IS NULL OR $10 = coalesce(old.version, 0))
		  AND NOT EXISTS (SELECT FROM dlq.audit WHERE operation_id = $7::uuid AND action = 'redirect')
		ON CONFLICT (topic) DO UPDATE SET target = excluded.target, version = excluded.version, reason = excluded.reason,
			updated_at = excluded.updated_at, updated_by = excluded.updated_by
		WHERE $10 IS NULL OR $10 = r.version
		RETURNING ` + redirectColumns + `
	), audit AS (
		INSERT INTO dlq.audit (at, action, kind, object_id, from_state, to_state, topics,
			actor, reason, request_id, trace_id, operation_id, call_id)
		SELECT updated_at, 'redirect', 'redirect', $8::uuid, (SELECT target FROM old), target, ARRAY[topic],
			` + audit.CauseFrom3 + `
		FROM saved
	)
	SELECT ` + redirectColumns + ` FROM saved`

// SaveRedirect implements repository.Redirects.
func (s *RedirectStore) SaveRedirect(ctx context.Context, topic, target string, expected *int64, cause entity.AuditInfo) (entity.Redirect, error) {
	return s.change(ctx, "save a redirect", saveRedirectQuery, topic, expected, entity.ActionRedirect, cause, codec.Clean(target))
}

const deleteRedirectQuery = `
	WITH gone AS (
		DELETE FROM dlq.redirects WHERE topic = $1 AND ($9::bigint IS NULL OR $9 = version)
		RETURNING ` + redirectColumns + `
	), audit AS (
		INSERT INTO dlq.audit (at, action, kind, object_id, from_state, topics, actor, reason, request_id, trace_id, operation_id, call_id)
		SELECT coalesce($2::timestamptz, clock_timestamp()), 'delete', 'redirect', $8::uuid, target, ARRAY[topic],
			` + audit.CauseFrom3 + `
		FROM gone
	)
	SELECT ` + redirectColumns + ` FROM gone`

// DeleteRedirect implements repository.Redirects.
func (s *RedirectStore) DeleteRedirect(ctx context.Context, topic string, expected *int64, cause entity.AuditInfo) (entity.Redirect, error) {
	return s.change(ctx, "delete a redirect", deleteRedirectQuery, topic, expected, entity.ActionDelete, cause)
}

// change runs a statement that saves or deletes a redirect. When the statement changes nothing, change checks whether
// the same operation has made the change before.
func (s *RedirectStore) change(
	ctx context.Context, what, query, topic string, expected *int64, action entity.Action, cause entity.AuditInfo, target ...any,
) (entity.Redirect, error) {
	cause = audit.WithOperation(cause)
	id := entity.RedirectID(topic)
	args := append([]any{codec.Clean(topic), s.db.Clock()}, audit.CauseArgs(cause)...)
	args = append(append(append(args, id), target...), expected)
	var found []redirectRow
	if err := s.db.Select(ctx, &found, query, args...); err != nil {
		return entity.Redirect{}, conn.Translate(what, err)
	}
	if len(found) > 0 {
		return found[0].redirect(), nil
	}
	var now []redirectRow
	if err := s.db.Select(ctx, &now, `SELECT `+redirectColumns+` FROM dlq.redirects WHERE topic = $1`, codec.Clean(topic)); err != nil {
		return entity.Redirect{}, conn.Translate(what, err)
	}
	present := entity.Redirect{Topic: topic}
	if len(now) > 0 {
		present = now[0].redirect()
	}
	before, err := audit.ChangedBy(ctx, s.db, cause.Operation, action, []uuid.UUID{id})
	switch {
	case err != nil:
		return entity.Redirect{}, conn.Translate(what, err)
	case len(before) > 0:
		return present, nil
	case present.Version == 0 && action == entity.ActionDelete:
		return entity.Redirect{}, &entity.RedirectNotFoundError{Topic: topic}
	}
	return entity.Redirect{}, &entity.ChangedError{What: "the redirect of " + topic, Version: present.Version}
}
