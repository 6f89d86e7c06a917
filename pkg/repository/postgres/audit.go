package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

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
		ID: r.ID, At: entity.Moment(r.At),
		Action: entity.Action(r.Action), Kind: entity.Kind(r.Kind), ObjectID: r.ObjectID,
		From: r.From.String, To: r.To.String, RetryCount: int(r.RetryCount.Int32),
		Class: entity.ErrorClass(r.Class.String), LastError: r.LastError.String, Topics: r.Topics.String,
		Cause: entity.Cause{
			Actor: r.Actor, Reason: r.Reason.String, RequestID: r.RequestID.String, TraceID: r.TraceID.String,
			Operation: r.Operation.UUID,
		},
	}
}

// Trail implements repository.Audit.
func (s *Store) Trail(ctx context.Context, q repository.TrailQuery) ([]entity.AuditEntry, error) {
	if q.Limit < 1 {
		return nil, nil
	}
	visible, err := s.visibleGroups(ctx, q.Visible)
	if err != nil {
		return nil, translate("read the audit trail", err)
	}
	query, args := trailQuery(q, visible)
	var found []auditRow
	// Not prepared: a generic plan would scan the trail back to its beginning for a rare actor or a recent time.
	if err := s.db.SelectContext(ctx, &found, query, args...); err != nil {
		return nil, translate("read the audit trail", err)
	}
	entries := make([]entity.AuditEntry, len(found))
	for i := range found {
		entries[i] = found[i].entry()
	}
	return entries, nil
}

// trailQuery contains only the conditions that are set, so that each combination has its own plan.
func trailQuery(q repository.TrailQuery, visible seenTopics) (query string, args []any) {
	var where []string
	add := func(asked bool, condition string, arg any) {
		if asked {
			args = append(args, arg)
			where = append(where, fmt.Sprintf(condition, len(args)))
		}
	}
	add(q.ObjectID != uuid.Nil, "object_id = $%d", q.ObjectID)
	add(q.Kind != "", "kind = $%d", clean(string(q.Kind)))
	add(q.Actor != "", "actor = $%d", clean(q.Actor))
	add(q.Action != "", "action = $%d", clean(string(q.Action)))
	add(q.RequestID != "", "request_id = $%d", clean(q.RequestID))
	add(!q.After.IsZero(), "at >= $%d", entity.Moment(q.After))
	add(q.Before != 0, "id < $%d", q.Before)
	add(!visible.all, "(topics IS NULL OR topics && $%d::text[])", texts(visible.names))
	if where == nil {
		where = []string{"true"}
	}
	args = append(args, q.Limit)
	return fmt.Sprintf(`
	SELECT id, at, action, kind, object_id, from_state, to_state, retry_count, error_class, last_error,
	       actor, reason, request_id, trace_id, operation_id, array_to_string(topics, ',') AS topics
	FROM dlq.audit WHERE %s ORDER BY id DESC LIMIT $%d`, strings.Join(where, " AND "), len(args)), args
}

const performedQuery = `SELECT EXISTS (SELECT FROM dlq.audit WHERE operation_id = $1::uuid)`

// Performed implements repository.Operations.
func (s *Store) Performed(ctx context.Context, operation uuid.UUID) (bool, error) {
	var found []bool
	if err := s.selectRows(ctx, &found, performedQuery, operation); err != nil {
		return false, translate("find an operation", err)
	}
	return len(found) > 0 && found[0], nil
}

// performedOnQuery searches by object, because an object has few entries; an operation may have millions, so no index
// of operations may be used.
const performedOnQuery = `
	SELECT w.id FROM unnest($3::uuid[]) AS w (id)
	CROSS JOIN LATERAL (
		SELECT FROM dlq.audit a
		WHERE a.object_id = w.id AND (a.operation_id = $1::uuid) IS TRUE AND a.action = $2
		LIMIT 1
	) a`

// performedOn returns the objects among ids, in that order, on which an operation has performed the action.
func (s *Store) performedOn(ctx context.Context, operation uuid.UUID, action entity.Action, ids []uuid.UUID) ([]uuid.UUID, error) {
	var found []uuid.UUID
	err := s.selectRows(ctx, &found, performedOnQuery, operation, string(action), uuids(ids))
	return found, err
}

// PerformedOn implements repository.Selections, in the order of ids.
func (s *Store) PerformedOn(ctx context.Context, operation uuid.UUID, action entity.Action, ids []uuid.UUID) ([]uuid.UUID, error) {
	if operation == uuid.Nil || len(ids) == 0 {
		return nil, nil
	}
	found, err := s.performedOn(ctx, operation, action, unique(ids))
	return found, translate("find changes of an operation", err)
}

// recordQuery appends one entry for an operation, an action and an object: the driver sends a statement twice when
// its connection ended before the answer arrived.
const recordQuery = `
	INSERT INTO dlq.audit (at, action, kind, object_id, from_state, to_state, retry_count, error_class, last_error,
		actor, reason, request_id, trace_id, operation_id)
	SELECT coalesce($1::timestamptz, clock_timestamp()), $2::text, $8::text, $9::uuid, $10::text, $11::text, $12::int,
		$13::text, $14::text, ` + causeFrom3 + `
	WHERE NOT EXISTS (
		SELECT FROM dlq.audit a
		WHERE a.operation_id = $7::uuid AND a.action = $2::text AND a.kind = $8::text AND a.object_id = $9::uuid
	)`

// Record implements repository.Operations.
func (s *Store) Record(ctx context.Context, e entity.AuditEntry) error {
	optional := func(text string) sql.NullString {
		text = clean(text)
		return sql.NullString{String: text, Valid: text != ""}
	}
	args := append([]any{s.clock(), clean(string(e.Action))}, causeArgs(withOperation(e.Cause))...)
	args = append(args, clean(string(e.Kind)), e.ObjectID, optional(e.From), optional(e.To),
		sql.NullInt32{Int32: int32(e.RetryCount), Valid: e.RetryCount != 0}, optional(string(e.Class)), optional(e.LastError))
	return translate("record in the audit trail", s.exec(ctx, recordQuery, args...))
}

// The five values of a cause for the columns actor, reason, request_id, trace_id and operation_id, from the parameter
// with that number on; see causeArgs.
const (
	causeFrom3  = `$3::text, $4::text, $5::text, $6::text, $7::uuid`
	causeFrom11 = `$11::text, $12::text, $13::text, $14::text, $15::uuid`
	causeFrom12 = `$12::text, $13::text, $14::text, $15::text, $16::uuid`
)

// withOperation adds an operation to a cause without one, so that the changes of a statement can be recognised when
// the driver sends it twice.
func withOperation(c entity.Cause) entity.Cause {
	if c.Operation == uuid.Nil {
		c.Operation = entity.NewID()
	}
	return c
}

func causeArgs(c entity.Cause) []any {
	optional := func(text string) sql.NullString {
		text = clean(text)
		return sql.NullString{String: text, Valid: text != ""}
	}
	return []any{
		clean(c.Actor), optional(c.Reason), optional(c.RequestID), optional(c.TraceID),
		uuid.NullUUID{UUID: c.Operation, Valid: c.Operation != uuid.Nil},
	}
}
