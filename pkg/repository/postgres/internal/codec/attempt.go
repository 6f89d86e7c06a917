package codec

import (
	"database/sql"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// AttemptRow contains the columns that AttemptColumns selects.
type AttemptRow struct {
	MessageID uuid.UUID     `db:"message_id"`
	Number    int           `db:"attempt_no"`
	ID        uuid.UUID     `db:"attempt_id"`
	RedriveID uuid.NullUUID `db:"redrive_id"`
	Count     int           `db:"retry_count"`
	Verdict   string        `db:"verdict"`
	Actor     string        `db:"actor"`
	StartedAt time.Time     `db:"started_at"`
	EndedAt   sql.NullTime  `db:"ended_at"`
	From      string        `db:"from_status"`
	To        string        `db:"to_status"`
	Class     string        `db:"error_class"`
	Error     string        `db:"error"`
	Topic     string        `db:"target_topic"`
	TopicID   string        `db:"target_topic_id"`
	Partition int32         `db:"target_partition"`
	Offset    int64         `db:"target_offset"`

	ConsumerGroup string `db:"consumer_group"` // "" where a query does not select it
}

// AttemptColumns are the columns of an AttemptRow. In the query, a must be the alias of dlq.attempts.
const AttemptColumns = `
	a.message_id, a.attempt_no, a.attempt_id, a.redrive_id, a.retry_count, coalesce(a.verdict, '') AS verdict, a.actor,
	a.started_at, a.ended_at, a.from_status, a.to_status,
	coalesce(a.error_class, '') AS error_class, coalesce(a.error, '') AS error,
	a.target_topic, coalesce(a.target_topic_id, '') AS target_topic_id,
	coalesce(a.target_partition, 0) AS target_partition, coalesce(a.target_offset, -1) AS target_offset`

// Attempt returns the attempt of the row without its edit.
func (r *AttemptRow) Attempt() entity.Attempt {
	return entity.Attempt{
		MessageID: r.MessageID, Number: r.Number, ID: r.ID, RetryCount: r.Count,
		RedriveID: r.RedriveID.UUID, Verdict: entity.Verdict(r.Verdict), Actor: r.Actor,
		StartedAt: entity.TruncateTime(r.StartedAt), EndedAt: TimeOf(r.EndedAt),
		From: entity.Status(r.From), To: entity.Status(r.To),
		Class: entity.ErrorClass(r.Class), Error: r.Error,
		Topic: r.Topic, TopicID: r.TopicID, Partition: r.Partition, Offset: r.Offset,
		ConsumerGroup: r.ConsumerGroup,
	}
}

// EditColumns are the columns of an EditRow. In the query, e must be the alias of dlq.edits, which must be left-joined.
const EditColumns = `
	e.attempt_id AS edit_id, e.target_topic AS edit_topic, e.set_value AS edit_set_value, e.value AS edit_value,
	e.set_key AS edit_set_key, e.key AS edit_key, e.set_headers AS edit_set_headers, e.headers AS edit_headers,
	e.patch AS edit_patch`

// EditRow contains the columns that EditColumns selects.
type EditRow struct {
	ID         uuid.NullUUID  `db:"edit_id"`
	Topic      sql.NullString `db:"edit_topic"`
	SetValue   sql.NullBool   `db:"edit_set_value"`
	Value      []byte         `db:"edit_value"`
	SetKey     sql.NullBool   `db:"edit_set_key"`
	Key        []byte         `db:"edit_key"`
	SetHeaders sql.NullBool   `db:"edit_set_headers"`
	Headers    []byte         `db:"edit_headers"`
	Patch      []byte         `db:"edit_patch"`
}

// Edit returns the edit of the row; nil when the attempt has no edit.
func (r *EditRow) Edit() (*entity.Edit, error) {
	if !r.ID.Valid {
		return nil, nil
	}
	headers, err := UnpackHeaders(r.Headers)
	if err != nil {
		return nil, err
	}
	return &entity.Edit{
		Topic: r.Topic.String, SetValue: r.SetValue.Bool, Value: r.Value, SetKey: r.SetKey.Bool, Key: r.Key,
		SetHeaders: r.SetHeaders.Bool, Headers: headers, Patch: r.Patch,
	}, nil
}
