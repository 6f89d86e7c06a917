package insight

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
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
	groups *Groups // finds the topics that the caller may see
}

// NewAudit returns an Audit that sends its statements to db.
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
	Call       uuid.NullUUID  `db:"call_id"`
	Topics     sql.NullString `db:"topics"`
	Entries    int            `db:"entries"`
	Redrive    string         `db:"redrive_action"`
	Selected   int            `db:"selected"`
}

func (r *auditRow) entry() entity.AuditEntry {
	return entity.AuditEntry{
		ID: r.ID, At: entity.TruncateTime(r.At),
		Action: entity.Action(r.Action), Kind: entity.Kind(r.Kind), ObjectID: r.ObjectID,
		From: r.From.String, To: r.To.String, RetryCount: int(r.RetryCount.Int32),
		Class: entity.ErrorClass(r.Class.String), LastError: r.LastError.String, Topics: r.Topics.String,
		Entries: r.Entries, Redrive: codec.RedriveAction(r.Redrive), Selected: r.Selected,
		Cause: entity.AuditInfo{
			Actor: r.Actor, Reason: r.Reason.String, RequestID: r.RequestID.String, TraceID: r.TraceID.String,
			Operation: r.Operation.UUID, Call: r.Call.UUID,
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
	query, args := trailQuery(q, visible)
	var found []auditRow
	// The query is not prepared, because for a rare actor or a recent time the generic plan would read the whole audit
	// trail.
	if err := s.db.Pool.SelectContext(ctx, &found, query, args...); err != nil {
		return nil, conn.Translate("read the audit trail", err)
	}
	entries := make([]entity.AuditEntry, len(found))
	for i := range found {
		entries[i] = found[i].entry()
	}
	return entries, nil
}

// byPerson is the SQL condition for audit entries of changes that people made, by the same rule as
// entity.AuditEntry.ActorKind. The predicate of the index idx_audit_people must have exactly this text.
const byPerson = `action NOT IN ('attempt', 'pass', 'stop', 'finish') AND actor NOT IN ('settler', 'auto', 'ingest', 'heartbeat')`

// trailQuery returns the query for the audit trail. The query's text contains only the conditions that are set, so that
// PostgreSQL plans each combination of conditions separately.
func trailQuery(q repository.TrailQuery, visible seenTopics) (query string, args []any) {
	where, seen := []string{"true"}, "true"
	add := func(asked bool, condition string, arg any) {
		if asked {
			args = append(args, arg)
			where = append(where, fmt.Sprintf(condition, len(args)))
		}
	}
	action := "action = $%d"
	if q.ByRequest {
		action = `(action = $%[1]d OR action = 'create' AND EXISTS (
			SELECT FROM dlq.redrives r WHERE r.id = object_id AND r.action IN ($%[1]d, $%[1]d || '_patched', 'archived_' || $%[1]d)))`
	}
	add(q.ObjectID != uuid.Nil, "object_id = $%d", q.ObjectID)
	add(q.Kind != "", "kind = $%d", codec.Clean(string(q.Kind)))
	add(q.Actor != "", "actor = $%d", codec.Clean(q.Actor))
	add(q.Action != "", action, codec.Clean(string(q.Action)))
	add(q.RequestID != "", "request_id = $%d", codec.Clean(q.RequestID))
	add(!visible.All, "(topics IS NULL OR topics && $%d::text[])", codec.TextArray(visible.Names))
	if !visible.All { // seen counts only entries of q.ObjectID, because a request's entries of other objects may name no topics
		seen = where[len(where)-1]
		if q.ObjectID != uuid.Nil {
			seen += " AND " + where[1]
		}
	}
	switch q.ActorKind {
	case entity.ActorPerson:
		where = append(where, byPerson)
	case entity.ActorMachine:
		where = append(where, "NOT ("+byPerson+")")
	}
	if q.ByRequest && q.ObjectID == uuid.Nil && q.RequestID == "" {
		where = append(where, "redrive_id IS NULL")
	}
	matches := strings.Join(where, " AND ")
	add(!q.After.IsZero(), "at >= $%d", entity.TruncateTime(q.After))
	add(!q.Until.IsZero(), "at < $%d", entity.TruncateTime(q.Until))
	add(q.Before != 0, "id < $%d", q.Before)
	first, from, extra := "", "dlq.audit", ""
	if q.ByRequest {
		first = `
		AND (call_id IS NULL OR id = (SELECT min(id) FROM dlq.audit WHERE call_id = e.call_id AND ` + matches + `))`
		from, extra = "dlq.audit e", `, (
			SELECT greatest(count(*), 1) FROM (
				SELECT FROM dlq.audit WHERE call_id = e.call_id AND `+seen+` LIMIT `+strconv.Itoa(entity.MaxRequestEntries+1)+`
			) counted
		) AS entries, coalesce((SELECT r.action FROM dlq.redrives r WHERE r.id = object_id AND e.action = 'create'), '') AS redrive_action,
		coalesce((SELECT r.selected FROM dlq.redrives r WHERE r.id = object_id AND e.action = 'create'), 0) AS selected`
	}
	args = append(args, q.Limit)
	return fmt.Sprintf(`
	SELECT id, at, action, kind, object_id, from_state, to_state, retry_count, error_class, last_error,
	       actor, reason, request_id, trace_id, operation_id, call_id, array_to_string(topics, ',') AS topics%s
	FROM %s WHERE %s%s ORDER BY id DESC LIMIT $%d`, extra, from, strings.Join(where, " AND "), first, len(args)), args
}
