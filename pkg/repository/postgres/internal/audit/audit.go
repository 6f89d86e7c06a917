package audit

import (
	"context"
	"database/sql"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
)

// Operations implements repository.Operations.
type Operations struct{ db *conn.DB }

// New returns Operations that send their statements to db.
func New(db *conn.DB) *Operations { return &Operations{db} }

// performedQuery returns whether an operation has made any change.
const performedQuery = `SELECT EXISTS (SELECT FROM dlq.audit WHERE operation_id = $1::uuid)`

// Performed implements repository.Operations.
func (s *Operations) Performed(ctx context.Context, operation uuid.UUID) (bool, error) {
	var found []bool
	if err := s.db.Select(ctx, &found, performedQuery, operation); err != nil {
		return false, conn.Translate("find an operation", err)
	}
	return len(found) > 0 && found[0], nil
}

// performedOnQuery searches by object and not by operation: an object has few entries, while an operation may have
// millions. It is written so that PostgreSQL cannot use the index on operations.
const performedOnQuery = `
	SELECT w.id FROM unnest($3::uuid[]) AS w (id)
	CROSS JOIN LATERAL (
		SELECT FROM dlq.audit a
		WHERE a.object_id = w.id AND (a.operation_id = $1::uuid) IS TRUE AND a.action = $2
		LIMIT 1
	) a`

// ChangedBy returns the ids of those objects on which the operation has performed the action, according to the audit
// trail. They keep the order of the parameter ids.
func ChangedBy(ctx context.Context, db *conn.DB, operation uuid.UUID, action entity.Action, ids []uuid.UUID) ([]uuid.UUID, error) {
	var found []uuid.UUID
	err := db.Select(ctx, &found, performedOnQuery, operation, string(action), codec.UUIDArray(ids))
	return found, err
}

// PerformedOn implements repository.Selections. The result has the order of ids.
func (s *Operations) PerformedOn(ctx context.Context, operation uuid.UUID, action entity.Action, ids []uuid.UUID) ([]uuid.UUID, error) {
	if operation == uuid.Nil || len(ids) == 0 {
		return nil, nil
	}
	found, err := ChangedBy(ctx, s.db, operation, action, codec.Unique(ids))
	return found, conn.Translate("find changes of an operation", err)
}

// RecordQuery appends an entry to the audit trail unless an entry with the same operation, action and object exists.
// The check is needed because the driver sends a statement twice when its connection ends before the answer arrives.
const RecordQuery = `
	INSERT INTO dlq.audit (at, action, kind, object_id, from_state, to_state, retry_count, error_class, last_error,
		actor, reason, request_id, trace_id, operation_id, call_id)
	SELECT coalesce($1::timestamptz, clock_timestamp()), $2::text, $8::text, $9::uuid, $10::text, $11::text, $12::int,
		$13::text, $14::text, ` + CauseFrom3 + `
	WHERE NOT EXISTS (
		SELECT FROM dlq.audit a
		WHERE a.operation_id = $7::uuid AND a.action = $2::text AND a.kind = $8::text AND a.object_id = $9::uuid
	)`

// Record implements repository.Operations.
func (s *Operations) Record(ctx context.Context, e entity.AuditEntry) error {
	optional := func(text string) sql.NullString {
		text = codec.Clean(text)
		return sql.NullString{String: text, Valid: text != ""}
	}
	args := append([]any{s.db.Clock(), codec.Clean(string(e.Action))}, CauseArgs(WithOperation(e.Cause))...)
	args = append(args, codec.Clean(string(e.Kind)), e.ObjectID, optional(e.From), optional(e.To),
		sql.NullInt32{Int32: int32(e.RetryCount), Valid: e.RetryCount != 0}, optional(string(e.Class)), optional(e.LastError))
	return conn.Translate("record in the audit trail", s.db.Exec(ctx, RecordQuery, args...))
}

// SQL expressions for the six columns actor, reason, request_id, trace_id, operation_id and call_id. They use five
// parameters, whose arguments CauseArgs returns. The third of the five is an array that contains both request_id and
// call_id. The number in a constant's name is the number of its first parameter.
const (
	CauseFrom3  = `$3::text, $4::text, ($5::text[])[1], $6::text, $7::uuid, ($5::text[])[2]::uuid`
	CauseFrom11 = `$11::text, $12::text, ($13::text[])[1], $14::text, $15::uuid, ($13::text[])[2]::uuid`
	CauseFrom12 = `$12::text, $13::text, ($14::text[])[1], $15::text, $16::uuid, ($14::text[])[2]::uuid`
)

// WithOperation returns the cause with a new operation id if it has none. When the driver sends a statement twice, the
// second execution finds the changes of the first by this id.
func WithOperation(c entity.AuditInfo) entity.AuditInfo {
	if c.Operation == uuid.Nil {
		c.Operation = entity.NewID()
	}
	return c
}

// CauseArgs returns the arguments for the five parameters of CauseFrom3, CauseFrom11 or CauseFrom12.
func CauseArgs(c entity.AuditInfo) []any {
	optional := func(text string) sql.NullString {
		text = codec.Clean(text)
		return sql.NullString{String: text, Valid: text != ""}
	}
	return []any{
		codec.Clean(c.Actor), optional(c.Reason), requestArg(c), optional(c.TraceID),
		uuid.NullUUID{UUID: c.Operation, Valid: c.Operation != uuid.Nil},
	}
}

// requestArg returns one array that contains two ids of the request: the id that the client knows, and the server's own
// id. A missing id is NULL.
func requestArg(c entity.AuditInfo) []byte {
	ids := codec.NewArray(codec.OIDText, 2, 40)
	ids.OptionalText(codec.Clean(c.RequestID))
	if c.Call == uuid.Nil {
		ids.Null()
	} else {
		ids.Text(c.Call.String())
	}
	return ids.Arg()
}
