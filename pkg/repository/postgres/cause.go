package postgres

import (
	"database/sql"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// The five values of a cause, in the order of the columns actor, reason,
// request_id, trace_id and operation_id of the audit trail, where a statement
// takes them from the parameter of that number on; see causeArgs.
const (
	causeFrom3  = `$3::text, $4::text, $5::text, $6::text, $7::uuid`
	causeFrom11 = `$11::text, $12::text, $13::text, $14::text, $15::uuid`
	causeFrom12 = `$12::text, $13::text, $14::text, $15::text, $16::uuid`
)

// withOperation gives a cause an operation of its own when it has none, so that
// what a statement changed is known again when the driver sends it twice.
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
