package insight

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
)

// Audit implements repository.Audit.
type Audit struct {
	db     *conn.DB
	groups *Groups // knows the topics of counters
}

// NewAudit returns the Audit of a database.
func NewAudit(db *conn.DB, groups *Groups) *Audit { return &Audit{db, groups} }

type auditRow struct {
	ID         int64          `db:"id"`
	At         time.Time      `db:"at"`
	Action     string         `db:"action"`
	Kind       string         `db:"kind"`
	ObjectID   uuid.UUID      `db:"object_id"`
	From       sql.NullString `db:"from_state"`
	To         sql.NullString `db:"to_state"`
	RetryCount sql.NullInt32  `db:"retry_count"`
	Class      sql.NullString `db:"error_class"`
	LastError  sql.NullString `db:"last_error"`
	Actor      string         `db:"actor"`
	Reason     sql.NullString `db:"reason"`
	RequestID  sql.NullString `db:"request_id"`
	TraceID    sql.NullString `db:"trace_id"`
	Operation  uuid.NullUUID  `db:"operation_id"`
	Topics     sql.NullString `db:"topics"`
}

func (r *auditRow) entry() entity.AuditEntry {
	return entity.AuditEntry{
		ID: r.ID, At: entity.TruncateTime(r.At),
		Action: entity.Action(r.Action), Kind: entity.Kind(r.Kind), ObjectID: r.ObjectID,
		From: r.From.String, To: r.To.String, RetryCount: int(r.RetryCount.Int32),
		Class: entity.ErrorClass(r.Class.String), LastError: r.LastError.String, Topics: r.Topics.String,
		Cause: entity.AuditInfo{
			Actor: r.Actor, Reason: r.Reason.String, RequestID: r.RequestID.String, TraceID: r.TraceID.String,
			Operation: r.Operation.UUID,
		},
	}
}

// Trail implements repository.Audit.
func (s *Audit) Trail(ctx context.Context, q repository.TrailQuery) ([]entity.AuditEntry, error) {
	if q.Limit < 1 {
		return nil, nil
	}
	visible, err := s.groups.visibleGroups(ctx, q.Visible)
	if err != nil {
		return nil, conn.Translate("read the audit trail", err)
	}
	query, args := TrailQuery(q, visible)
	var found []auditRow
	// Not prepared: a generic plan would scan the trail back to its beginning for a rare actor or a recent time.
	if err := s.db.Pool.SelectContext(ctx, &found, query, args...); err != nil {
		return nil, conn.Translate("read the audit trail", err)
	}
	entries := make([]entity.AuditEntry, len(found))
	for i := range found {
		entries[i] = found[i].entry()
	}
	return entries, nil
}

// TrailQuery contains only the conditions that are set, so that each combination has its own plan.
func TrailQuery(q repository.TrailQuery, visible SeenTopics) (query string, args []any) {
	var where []string
	add := func(asked bool, condition string, arg any) {
		if asked {
			args = append(args, arg)
			where = append(where, fmt.Sprintf(condition, len(args)))
		}
	}
	add(q.ObjectID != uuid.Nil, "object_id = $%d", q.ObjectID)
	add(q.Kind != "", "kind = $%d", codec.Clean(string(q.Kind)))
	add(q.Actor != "", "actor = $%d", codec.Clean(q.Actor))
	add(q.Action != "", "action = $%d", codec.Clean(string(q.Action)))
	add(q.RequestID != "", "request_id = $%d", codec.Clean(q.RequestID))
	add(!q.After.IsZero(), "at >= $%d", entity.TruncateTime(q.After))
	add(q.Before != 0, "id < $%d", q.Before)
	add(!visible.All, "(topics IS NULL OR topics && $%d::text[])", codec.TextArray(visible.Names))
	if where == nil {
		where = []string{"true"}
	}
	args = append(args, q.Limit)
	return fmt.Sprintf(`
	SELECT id, at, action, kind, object_id, from_state, to_state, retry_count, error_class, last_error,
	       actor, reason, request_id, trace_id, operation_id, array_to_string(topics, ',') AS topics
	FROM dlq.audit WHERE %s ORDER BY id DESC LIMIT $%d`, strings.Join(where, " AND "), len(args)), args
}
