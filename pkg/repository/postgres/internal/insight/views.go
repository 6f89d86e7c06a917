package insight

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/audit"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
)

// SavedViews implements repository.Views.
type SavedViews struct{ db *conn.DB }

// NewSavedViews returns SavedViews that send their statements to db.
func NewSavedViews(db *conn.DB) *SavedViews { return &SavedViews{db} }

type viewRow struct {
	ID        uuid.UUID `db:"id"`
	Name      string    `db:"name"`
	Owner     string    `db:"owner"`
	Shared    bool      `db:"shared"`
	List      string    `db:"list"`
	Query     string    `db:"query"`
	Version   int64     `db:"version"`
	UpdatedAt time.Time `db:"updated_at"`
}

func (r viewRow) view() entity.View {
	v := entity.View(r)
	v.UpdatedAt = entity.TruncateTime(v.UpdatedAt)
	return v
}

const viewColumns = `id, name, owner, shared, list, query, version, updated_at`

// viewsQuery reads the owner's own views and the shared views in two parts, so that each part uses one index.
const viewsQuery = `
	SELECT ` + viewColumns + ` FROM (
		SELECT * FROM dlq.views WHERE owner = $1 AND NOT shared UNION ALL SELECT * FROM dlq.views WHERE shared
	) v ORDER BY shared, name COLLATE "C"`

// Views implements repository.Views.
func (s *SavedViews) Views(ctx context.Context, owner string) ([]entity.View, error) {
	var found []viewRow
	if err := s.db.Select(ctx, &found, viewsQuery, codec.Clean(owner)); err != nil {
		return nil, conn.Translate("list views", err)
	}
	views := make([]entity.View, len(found))
	for i, row := range found {
		views[i] = row.view()
	}
	return views, nil
}

// saveViewQuery inserts a new view, or changes a view if its version is still the one that the caller has read.
const saveViewQuery = `
	WITH changed AS (
		UPDATE dlq.views SET list = $12, query = $13, version = version + 1, updated_at = coalesce($1::timestamptz, clock_timestamp())
		WHERE id = $8::uuid AND version = $14 AND $14::bigint > 0
		RETURNING *
	), made AS (
		INSERT INTO dlq.views (` + viewColumns + `)
		SELECT $8::uuid, $9, $10, $11::bool, $12, $13, 1, coalesce($1::timestamptz, clock_timestamp()) WHERE $14::bigint = 0
		ON CONFLICT DO NOTHING
		RETURNING *
	), saved AS (
		SELECT * FROM changed UNION ALL SELECT * FROM made
	), audit AS (
		INSERT INTO dlq.audit (at, action, kind, object_id, last_error, actor, reason, request_id, trace_id, operation_id, call_id)
		SELECT updated_at, $2, 'view', id, name || ': ' || query, ` + audit.CauseFrom3 + `
		FROM saved WHERE shared
	)
	SELECT ` + viewColumns + ` FROM saved`

// SaveView implements repository.Views.
func (s *SavedViews) SaveView(ctx context.Context, v entity.View, cause entity.AuditInfo) (entity.View, error) {
	args := append([]any{s.db.Clock(), string(entity.ActionSave)}, audit.CauseArgs(audit.WithOperation(cause))...)
	args = append(args, v.ID, codec.Clean(v.Name), codec.Clean(v.Owner), v.Shared, v.List, codec.Clean(v.Query), v.Version)
	var saved []viewRow
	if err := s.db.Select(ctx, &saved, saveViewQuery, args...); err != nil {
		return entity.View{}, conn.Translate("save a view", err)
	}
	if len(saved) == 0 {
		return entity.View{}, &entity.ViewConflictError{Name: v.Name}
	}
	return saved[0].view(), nil
}

const deleteViewQuery = `
	WITH gone AS (
		DELETE FROM dlq.views WHERE id = $8::uuid RETURNING *
	)
	INSERT INTO dlq.audit (at, action, kind, object_id, last_error, actor, reason, request_id, trace_id, operation_id, call_id)
	SELECT coalesce($1::timestamptz, clock_timestamp()), $2, 'view', id, name || ': ' || query, ` + audit.CauseFrom3 + `
	FROM gone WHERE shared`

// DeleteView implements repository.Views.
func (s *SavedViews) DeleteView(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) error {
	args := append([]any{s.db.Clock(), string(entity.ActionDelete)}, audit.CauseArgs(audit.WithOperation(cause))...)
	return conn.Translate("delete a view", s.db.Exec(ctx, deleteViewQuery, append(args, id)...))
}
