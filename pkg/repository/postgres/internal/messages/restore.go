package messages

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/audit"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
)

var (
	FromArchive      = codec.SourceOf(true)
	GetArchivedQuery = codec.OneQuery(FromArchive, repository.KeyLimit)
)

// GetArchived implements repository.Archive.
func (s *Archive) GetArchived(ctx context.Context, id uuid.UUID, maxValue int64) (entity.Message, error) {
	var found []codec.Row
	if err := s.db.Select(ctx, &found, GetArchivedQuery, id, maxValue); err != nil {
		return entity.Message{}, conn.Translate("get archived message", err)
	}
	if len(found) == 0 {
		return entity.Message{}, &entity.NotFoundError{ID: id}
	}
	m, err := found[0].MessageToShow()
	if err == nil {
		err = repository.ReserveMemory(ctx, repository.SizeInMemory(&m))
	}
	if err != nil {
		return entity.Message{}, fmt.Errorf("get archived message %s: %w", id, err)
	}
	return m, nil
}

// RestoredColumns are the columns that a restored message keeps. All other columns describe retries; they are reset,
// because retries start again.
const RestoredColumns = `
	id, original_topic, error_message, max_retries, payload, created_at, last_retry_at,
	key, value, headers, payload_note, omitted_size, omitted_sha256, defect,
	dlq_topic_id, dlq_incarnation_id, dlq_partition, dlq_offset, dlq_timestamp, dlq_timestamp_ms,
	original_partition, original_offset, original_timestamp, origin_confidence,
	consumer_group, consumer_attempts, dialect, error_class, group_id, parent_id, root_id,
	attempt_no, last_publish_error, last_publish_error_class, record_hash`

// PointerStep makes the pointer of a restored message due again if the message's record is not stored and may still be
// read; see takePointersQuery of package ingest.
const PointerStep = `, pointer AS (
		UPDATE dlq.share_records s SET due_at = m.updated_at FROM back m
		WHERE s.message_id = m.id AND s.state IN ('waiting', 'refused')
	)`

// RestoreQuery moves a message from the archive to the live table in one statement, so that the message is in exactly
// one of the two tables at any time.
var RestoreQuery = `
	WITH gone AS (
		DELETE FROM dlq.dlq_messages_archive m WHERE ` + FromArchive.Has("$1") + ` RETURNING *
	), back AS (
		INSERT INTO dlq.dlq_messages (` + RestoredColumns + `, status, retry_count, updated_at, next_attempt_at)
		SELECT ` + RestoredColumns + `, 'PENDING', 0, c.moment, ` + codec.NextAttempt("gone", "c.moment + $8::bigint * interval '1 microsecond'") + `
		FROM gone, (SELECT coalesce($2::timestamptz, clock_timestamp()) AS moment) c
		RETURNING *
	)` + PointerStep + `, audit AS (
		INSERT INTO dlq.audit (at, action, kind, object_id, from_state, to_state, retry_count, error_class, last_error,
			actor, reason, request_id, trace_id, operation_id, call_id)
		SELECT m.updated_at, 'restore', 'message', m.id, g.status, m.status, m.retry_count,
			m.last_publish_error_class, m.last_publish_error, ` + audit.CauseFrom3 + `
		FROM back m JOIN gone g ON g.id = m.id
	)
	SELECT ` + codec.StateColumns + ` FROM back m LEFT JOIN dlq.topics t ON t.id = m.dlq_topic_id`

// RestoreError returns an error of a restoration with its kind. The kind is entity.ErrConflict when a live message has
// the id of the archived message.
func RestoreError(err error) error {
	if conn.Violates(err, "23505", "dlq_messages_pkey") {
		return fmt.Errorf("restore message: a live message has its id: %w", entity.ErrConflict)
	}
	return conn.Translate("restore message", err)
}

// Restore implements repository.Archive.
func (s *Archive) Restore(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) (entity.Message, error) {
	return s.RestoreHeld(ctx, id, 0, cause)
}

// RestoreHeld restores a message as Restore does. The message is due for automatic retry when the time hold is over.
func (s *Archive) RestoreHeld(ctx context.Context, id uuid.UUID, hold time.Duration, cause entity.AuditInfo) (entity.Message, error) {
	cause = audit.WithOperation(cause)
	args := append([]any{id, s.db.Clock()}, audit.CauseArgs(cause)...)
	var back []codec.Row
	if err := s.db.Select(ctx, &back, RestoreQuery, append(args, hold.Microseconds())...); err != nil {
		return entity.Message{}, RestoreError(err)
	}
	if len(back) > 0 {
		return back[0].Message(), nil
	}
	again, err := audit.ChangedBy(ctx, s.db, cause.Operation, entity.ActionRestore, []uuid.UUID{id})
	if err != nil {
		return entity.Message{}, conn.Translate("restore message", err)
	}
	if len(again) > 0 {
		return s.messages.Get(ctx, id, 0)
	}
	return entity.Message{}, &entity.NotFoundError{ID: id}
}

// holdQuery keeps messages from becoming due soon. It leaves out messages that were attempted since they were restored,
// and those that are held for most of the time already, so that a redrive that tries again often writes few rows.
const holdQuery = `
	UPDATE dlq.dlq_messages m SET next_attempt_at = c.moment + $3::bigint * interval '1 microsecond'
	FROM (SELECT coalesce($2::timestamptz, clock_timestamp()) AS moment) c
	WHERE m.id = ANY ($1::uuid[]) AND m.status = 'PENDING' AND m.retry_count = 0
	  AND m.next_attempt_at < c.moment + $3::bigint / 2 * interval '1 microsecond'
	RETURNING m.id`

// Hold makes restored messages due for automatic retry when the time hold is over, unless they were attempted meanwhile.
func (s *Archive) Hold(ctx context.Context, ids []uuid.UUID, hold time.Duration) error {
	var held []uuid.UUID
	err := s.db.Select(ctx, &held, holdQuery, codec.UUIDArray(ids), s.db.Clock(), hold.Microseconds())
	return conn.Translate("hold restored messages", err)
}

// eraseQuery erases an archived message. $8 is the id of the object that contains the message; NULL when the message is
// in the database. $9, $10 and $11 are the message's original topic, dead-letter topic and created_at, as the object
// contains them.
const eraseQuery = `
	WITH gone AS MATERIALIZED (
		SELECT dlq.erase_archived($1, $8, $9, $10, $11) AS done
	), audit AS (
		INSERT INTO dlq.audit (at, action, kind, object_id, actor, reason, request_id, trace_id, operation_id, call_id)
		SELECT coalesce($2::timestamptz, clock_timestamp()), 'erase', 'message', $1::uuid, ` + audit.CauseFrom3 + `
		FROM gone WHERE done
	)
	SELECT done FROM gone`

// InObject names the object that contains an archived message, and the message's topics and created_at in that object.
// It is the zero value for a message in the database.
type InObject struct {
	ID               uuid.UUID
	Topic, DeadTopic string
	CreatedAt        time.Time
}

// EraseFrom erases a message of the archive, in the database or in an object, as repository.Archive describes for
// Erase. It returns nil when the operation has erased the message already.
func EraseFrom(ctx context.Context, db *conn.DB, id uuid.UUID, in InObject, cause entity.AuditInfo) error {
	cause = audit.WithOperation(cause)
	args := append([]any{id, db.Clock()}, audit.CauseArgs(cause)...)
	args = append(args, uuid.NullUUID{UUID: in.ID, Valid: in.ID != uuid.Nil}, in.Topic, in.DeadTopic, in.CreatedAt)
	var done []bool
	if err := db.Select(ctx, &done, eraseQuery, args...); err != nil {
		return conn.Translate("erase message", err)
	}
	if len(done) > 0 && done[0] {
		return nil
	}
	again, err := audit.ChangedBy(ctx, db, cause.Operation, entity.ActionErase, []uuid.UUID{id})
	if err == nil && len(again) == 0 {
		return &entity.NotFoundError{ID: id}
	}
	return conn.Translate("erase message", err)
}

// Erase implements repository.Archive.
func (s *Archive) Erase(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) (repository.Erased, error) {
	return repository.Erased{}, EraseFrom(ctx, s.db, id, InObject{}, cause)
}
