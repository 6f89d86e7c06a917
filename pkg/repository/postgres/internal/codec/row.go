package codec

import (
	"database/sql"
	"encoding/json"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Row contains the columns of a message that a query selects. Every column may be NULL: a query that also returns a
// total returns one row without a message when it finds none; see Present.
type Row struct {
	ID            uuid.NullUUID  `db:"id"`
	OriginalTopic sql.NullString `db:"original_topic"`
	ErrorMessage  sql.NullString `db:"error_message"`
	RetryCount    sql.NullInt32  `db:"retry_count"`
	MaxRetries    sql.NullInt32  `db:"max_retries"`
	Status        sql.NullString `db:"status"`
	CreatedAt     sql.NullTime   `db:"created_at"`
	UpdatedAt     sql.NullTime   `db:"updated_at"`
	LastRetryAt   sql.NullTime   `db:"last_retry_at"`

	DLQTopic       sql.NullString `db:"dlq_topic"`
	DLQTopicID     sql.NullInt32  `db:"dlq_topic_id"`
	DLQIncarnation sql.NullInt32  `db:"dlq_incarnation_id"`
	DLQPartition   sql.NullInt32  `db:"dlq_partition"`
	DLQOffset      sql.NullInt64  `db:"dlq_offset"`
	DLQTimestamp   sql.NullTime   `db:"dlq_timestamp"`
	DLQTimestampMs sql.NullInt64  `db:"dlq_timestamp_ms"`

	OriginalPartition *int32         `db:"original_partition"`
	OriginalOffset    *int64         `db:"original_offset"`
	OriginalTimestamp sql.NullTime   `db:"original_timestamp"`
	OriginConfidence  sql.NullString `db:"origin_confidence"`
	ConsumerGroup     sql.NullString `db:"consumer_group"`
	ConsumerAttempts  sql.NullInt32  `db:"consumer_attempts"`
	Dialect           sql.NullString `db:"dialect"`
	ErrorClass        sql.NullString `db:"error_class"`
	Group             uuid.NullUUID  `db:"group_id"`

	ParentID uuid.NullUUID `db:"parent_id"`
	RootID   uuid.NullUUID `db:"root_id"`

	UnconfirmedReturn sql.NullBool `db:"unconfirmed_return"`

	Share []byte `db:"share"` // JSON of an entity.ShareRecord

	Repeats []byte `db:"repeats"` // JSON of an entity.Repeats

	ClaimID        uuid.NullUUID  `db:"claim_id"`
	ClaimExpiresAt sql.NullTime   `db:"claim_expires_at"`
	ClaimTopic     sql.NullString `db:"claim_topic"`
	ClaimTopicID   sql.NullString `db:"claim_topic_id"`
	ClaimPartition sql.NullInt32  `db:"claim_partition"`
	ClaimEndOffset sql.NullInt64  `db:"claim_end_offset"`
	ClaimRedriveID uuid.NullUUID  `db:"claim_redrive_id"`

	Unsettled             sql.NullBool   `db:"unsettled"`
	NextAttemptAt         sql.NullTime   `db:"next_attempt_at"`
	LastPublishError      sql.NullString `db:"last_publish_error"`
	LastPublishErrorClass sql.NullString `db:"last_publish_error_class"`
	Outcome               sql.NullString `db:"outcome"`

	// The columns that ConsumptionOf provides; NULL when the query does not select them.
	ConsumedGroup  sql.NullString `db:"consumed_group"`
	ConsumedOffset sql.NullInt64  `db:"consumed_offset"`
	ConsumedSeenAt sql.NullTime   `db:"consumed_seen_at"`

	// The columns with the bytes of the record; nil when the query does not select them.
	Key           []byte        `db:"key"`
	KeySize       sql.NullInt64 `db:"key_size"`
	Headers       []byte        `db:"headers"`
	Value         []byte        `db:"value"`
	ValueSize     sql.NullInt64 `db:"value_size"`
	OmittedSHA256 []byte        `db:"omitted_sha256"`
	OmittedSize   sql.NullInt64 `db:"omitted_size"`
	Defect        []byte        `db:"defect"`
	Payload       []byte        `db:"payload_text"`
	HasPayload    sql.NullBool  `db:"has_payload"`
	HasHeaders    sql.NullBool  `db:"has_headers"`

	// Cut is set only by exports. It says that the key or the error message was left out of the row because it is too
	// long, and must be read separately.
	Cut sql.NullBool `db:"cut"`
}

// StateColumns are all columns of a message except the bytes of its record. In the query, m must be the alias of
// dlq_messages, and t that of dlq.topics, which must be left-joined.
const StateColumns = StateColumnsBefore + "m.error_message" + StateColumnsBehind

// StateColumnsBefore are those of the StateColumns that come before the error message.
const StateColumnsBefore = `
	m.id, m.original_topic, `

// StateColumnsBehind are those of the StateColumns that come after the error message.
const StateColumnsBehind = `, m.retry_count, m.max_retries, m.status,
	m.created_at, m.updated_at, m.last_retry_at,
	t.name AS dlq_topic, m.dlq_topic_id, m.dlq_incarnation_id, m.dlq_partition, m.dlq_offset, m.dlq_timestamp, m.dlq_timestamp_ms,
	m.original_partition, m.original_offset, m.original_timestamp, m.origin_confidence,
	m.consumer_group, m.consumer_attempts, m.dialect, m.error_class, m.group_id, m.parent_id, m.root_id,
	CASE WHEN m.parent_id IS NOT NULL THEN (SELECT true FROM dlq.unconfirmed_returns u WHERE u.child_id = m.id) END AS unconfirmed_return,
	CASE WHEN m.dialect = 'sharegroup' THEN (SELECT json_build_object('state', s.state, 'reason', s.reason, 'duplicates', s.duplicates)::text
		FROM dlq.share_records s WHERE s.message_id = m.id) END AS share,
	CASE WHEN m.original_offset IS NOT NULL THEN (SELECT json_build_object('of', r.repeat_of, 'count', r.duplicates,
		'positions', ARRAY(SELECT json_build_object('partition', p, 'offset', o) FROM unnest(r.partitions, r.offsets) AS x (p, o)))::text
		FROM dlq.repeats r WHERE r.message_id = m.id) END AS repeats,
	m.claim_id, m.claim_expires_at, m.claim_topic, m.claim_topic_id, m.claim_partition, m.claim_end_offset, m.claim_redrive_id,
	m.unsettled,
	m.next_attempt_at, m.last_publish_error, m.last_publish_error_class, m.outcome`

// ConsumptionColumns are the columns that ConsumptionOf provides: the consumer group and its committed offset, which
// show that the message's record was consumed, and when the offset was seen.
const ConsumptionColumns = `seen.consumed_group, seen.consumed_offset, seen.consumed_seen_at`

// GroupsOf returns the SQL of the consumer groups whose committed offsets show the outcome of a record in a topic; its
// columns are consumer_group and place, by which they are preferred when none has committed an offset. The parameters
// are SQL expressions: the topic, the consumer group of the message, which is empty when it is not known, and whether
// the message was sent elsewhere than to its original topic. The consumer group of the message counts, or, when it is
// not known, those that are configured for the topic. When the message was sent elsewhere, to a topic in which its
// consumer group has committed nothing, those count that are known for the topic.
func GroupsOf(topic, group, elsewhere string) string {
	return `
				SELECT ` + group + ` AS consumer_group, 1 AS place WHERE ` + group + ` <> ''
				UNION ALL
				SELECT k.consumer_group, 0 FROM dlq.topic_groups k
				WHERE k.topic = ` + topic + ` AND CASE WHEN ` + group + ` = '' THEN k.configured ELSE ` + elsewhere + ` AND
					(SELECT true FROM dlq.committed_offsets o WHERE o.consumer_group = ` + group + ` AND o.topic = ` + topic + `
						ORDER BY o.topic_id, o.partition LIMIT 1) IS NULL END`
}

// ConsumptionOf is an SQL join to m, a row of dlq_messages. For a published message it reads the committed offsets of
// the consumer groups of GroupsOf in the target, and takes the highest if it is higher than that of the sent record.
// It finds no offset when the consumer group is a share group and its dead letter for the sent record is stored,
// because then the record failed again.
var ConsumptionOf = `
	LEFT JOIN LATERAL (
		SELECT c.consumer_group AS consumed_group, c.committed AS consumed_offset, c.seen_at AS consumed_seen_at
		FROM (
			SELECT c.consumer_group, c.committed, c.seen_at, a.target_topic, a.target_partition, a.target_offset, a.started_at
			FROM dlq.attempts a CROSS JOIN LATERAL (` + GroupsOf("a.target_topic", "coalesce(m.consumer_group, '')", "a.target_topic <> m.original_topic") + `
			) who
			JOIN dlq.committed_offsets c ON c.consumer_group = who.consumer_group AND c.topic = a.target_topic
				AND c.topic_id = coalesce(a.target_topic_id, '') AND c.partition = a.target_partition
				AND c.committed > a.target_offset
			WHERE m.status = 'RESOLVED' AND m.outcome = 'published' AND a.message_id = m.id AND a.attempt_no = m.attempt_no
			ORDER BY c.committed DESC, c.consumer_group LIMIT 1
		) c
		WHERE ` + DeadLetterOf("c.target_topic, c.target_partition, c.target_offset, c.consumer_group", "m.dlq_topic_id", "c.started_at") + ` IS NULL
	) seen ON true`

// DeadLetterOf returns an SQL expression: true when a share group's dead letter of a sent record is stored, else NULL.
// The parameters are SQL expressions: record lists the topic, partition, offset and consumer group of the sent record,
// dlqTopic is the id of the dead-letter topic of the message that was sent, and sent is the time at which sending
// began.
//
// A dead letter in another dead-letter topic does not count: a program that may write only there must not be able to
// change the outcome. A dead letter that is more than a minute older than sent does not count either, because it
// belongs to an earlier incarnation of the topic. The minute allows for clocks that differ. The result is a scalar
// subquery, because for an EXISTS PostgreSQL may read the whole table.
func DeadLetterOf(record, dlqTopic, sent string) string {
	return `(SELECT true FROM dlq.share_records s
				WHERE (s.topic, s.partition, s.position, s.share_group, s.dlq_topic_id) = (` + record + `, ` + dlqTopic + `)
				AND (s.last_death >= ` + sent + ` - interval '1 minute') IS NOT FALSE LIMIT 1)`
}

// LacksRecord returns the condition that the message m came from a share group and its record is not stored. Without
// the record, nothing shows whether the message is a return of an attempt, so automatic retry could send it again
// without end. The condition uses a scalar subquery, because for an EXISTS PostgreSQL may read the whole table.
func LacksRecord(m string) string {
	return `(` + m + `.dialect IS NOT DISTINCT FROM 'sharegroup'
		AND (SELECT s.state <> 'completed' FROM dlq.share_records s WHERE s.message_id = ` + m + `.id) IS TRUE)`
}

// IsRepeat returns the condition that the message m is a repeat of a message that was final.
func IsRepeat(m string) string {
	return `((SELECT r.repeat_of FROM dlq.repeats r WHERE r.message_id = ` + m + `.id) IS NOT NULL)`
}

// NextAttempt returns the SQL expression for next_attempt_at of the message m: the time at, or NULL for a repeat and
// while the message's record is not stored. So the index of due messages contains no message that Due would have to
// skip in each call. When the record is stored, Due finds the message like one that was never attempted.
func NextAttempt(m, at string) string {
	return `CASE WHEN NOT ` + LacksRecord(m) + ` AND NOT ` + IsRepeat(m) + ` THEN ` + at + ` END`
}

// ByteColumns returns the columns with the bytes of the record. A value longer than limit, and headers or a key longer
// than headerLimit, are left out. Both limits are SQL expressions; a negative limit leaves out nothing. The lengths are
// computed with octet_length, which does not read a value that is stored out of line.
func ByteColumns(limit, headerLimit string) string {
	return ByteColumnsWith(KeyUpTo(headerLimit), limit, HeadersUpTo(headerLimit))
}

// FirstByteColumns returns the columns with the bytes of the record, but of the headers only the first bytes, which
// viewFirst needs. A key longer than keyLimit is left out; a negative keyLimit means no limit.
func FirstByteColumns(limit string, keyLimit int) string {
	return ByteColumnsWith(KeyUpTo(Bigint(keyLimit)), limit, "substring(m.headers FOR "+strconv.Itoa(packedLimit)+")")
}

// AnyKey, as the parameter keyLimit, loads keys of any length.
const AnyKey = -1

// KeyUpTo returns the SQL of the column key, which is NULL for a key longer than limit bytes.
func KeyUpTo(limit string) string {
	return "CASE WHEN " + limit + " < 0 OR octet_length(m.key) <= " + limit + " THEN m.key END AS key"
}

// HeadersUpTo returns the SQL of the column headers, which is NULL for headers longer than limit bytes.
func HeadersUpTo(limit string) string {
	return "CASE WHEN " + limit + " < 0 OR octet_length(m.headers) <= " + limit + " THEN m.headers END"
}

// ByteColumnsWith does the same as ByteColumns, with the given SQL expressions for key and headers.
func ByteColumnsWith(key, limit, headers string) string {
	return `
	` + key + `, octet_length(m.key) AS key_size,
	octet_length(m.headers) > 1 AS has_headers,
	` + headers + ` AS headers,
	` + ValueUpTo(limit)
}

// ValueUpTo returns the columns of the value. The column value is NULL when the value is longer than limit bytes.
func ValueUpTo(limit string) string {
	return `m.omitted_sha256, m.omitted_size, m.defect, octet_length(m.value) AS value_size,
	CASE WHEN ` + limit + ` < 0 OR octet_length(m.value) <= ` + limit + ` THEN m.value END AS value,
	m.dlq_topic_id IS NULL AND m.value IS NULL AND m.payload IS NOT NULL AS has_payload,
	CASE WHEN m.dlq_topic_id IS NULL AND m.value IS NULL
	      AND (` + limit + ` < 0 OR pg_column_size(m.payload) <= ` + limit + `) THEN m.payload::text END AS payload_text`
}

// Present reports whether the row contains a message.
func (r *Row) Present() bool { return r.ID.Valid }

// Message returns the message without its key, value and headers.
func (r *Row) Message() entity.Message {
	m := entity.Message{
		ID:            r.ID.UUID,
		OriginalTopic: r.OriginalTopic.String,
		ErrorMessage:  r.ErrorMessage.String,
		RetryCount:    int(r.RetryCount.Int32),
		MaxRetries:    int(r.MaxRetries.Int32),
		Status:        entity.Status(r.Status.String),
		CreatedAt:     TimeOf(r.CreatedAt),
		UpdatedAt:     TimeOf(r.UpdatedAt),
		LastRetryAt:   TimeOf(r.LastRetryAt),
		Source: entity.Source{
			Topic:       r.DLQTopic.String,
			TopicID:     r.DLQTopicID.Int32,
			Incarnation: r.DLQIncarnation.Int32,
			Partition:   r.DLQPartition.Int32,
			Offset:      r.DLQOffset.Int64,
			Timestamp:   TimeOf(r.DLQTimestamp),
			RawTime:     r.DLQTimestampMs.Int64,
		},
		Origin: entity.Origin{
			Partition:  r.OriginalPartition,
			Offset:     r.OriginalOffset,
			Timestamp:  TimeOf(r.OriginalTimestamp),
			Confidence: r.confidence(),
		},
		Failure: entity.Failure{
			Class:         r.ErrorClass.String,
			ConsumerGroup: r.ConsumerGroup.String,
			Dialect:       r.Dialect.String,
		},
		Group:                 r.Group.UUID,
		Parent:                r.ParentID.UUID,
		Root:                  r.RootID.UUID,
		UnconfirmedReturn:     r.UnconfirmedReturn.Bool,
		Share:                 shareRecord(r.Share),
		Repeats:               repeats(r.Repeats),
		Unsettled:             r.Unsettled.Bool,
		NextAttemptAt:         TimeOf(r.NextAttemptAt),
		LastPublishError:      r.LastPublishError.String,
		LastPublishErrorClass: entity.ErrorClass(r.LastPublishErrorClass.String),
		Outcome:               entity.Outcome(r.Outcome.String),
	}
	if r.ConsumerAttempts.Valid {
		n := int(r.ConsumerAttempts.Int32)
		m.Failure.Attempts = &n
	}
	if m.Status == entity.Retrying {
		m.Claim = r.claim()
	}
	if r.ConsumedGroup.Valid {
		m.Outcome = entity.Consumed
		m.Consumption = &entity.Consumption{
			Group: r.ConsumedGroup.String, Offset: r.ConsumedOffset.Int64, SeenAt: TimeOf(r.ConsumedSeenAt),
		}
	}
	return m
}

// confidence returns how the original topic of the message is known. A row that a user inserted by SQL has no
// confidence. Its topic counts as mapped, because the user named it.
func (r *Row) confidence() entity.Confidence {
	switch {
	case r.OriginConfidence.Valid:
		return entity.Confidence(r.OriginConfidence.String)
	case r.OriginalTopic.String == "":
		return entity.FromNothing
	default:
		return entity.FromMapping
	}
}

func (r *Row) claim() entity.Claim {
	c := entity.Claim{
		ID:        r.ClaimID.UUID,
		ExpiresAt: TimeOf(r.ClaimExpiresAt),
		Topic:     r.ClaimTopic.String,
		TopicID:   r.ClaimTopicID.String,
		Partition: r.ClaimPartition.Int32,
		EndOffset: r.ClaimEndOffset.Int64,
		RedriveID: r.ClaimRedriveID.UUID,
	}
	if c.Topic == "" {
		c.Topic = r.OriginalTopic.String
	}
	return c
}

// MessageWithBytes returns the message with all headers, and with key and value if the query has selected them. The
// message shares memory with the row.
func (r *Row) MessageWithBytes() (entity.Message, error) {
	headers, err := viewHeaders(r.Headers)
	if err != nil {
		return entity.Message{}, err
	}
	return r.messageWith(headers), nil
}

// MessageToShow does the same as MessageWithBytes, but returns at most repository.HeaderLimit headers.
func (r *Row) MessageToShow() (entity.Message, error) {
	headers, more, err := viewFirst(r.Headers)
	if err != nil {
		return entity.Message{}, err
	}
	m := r.messageWith(headers)
	m.Record.HeadersOmitted = m.Record.HeadersOmitted || more
	return m, nil
}

func (r *Row) messageWith(headers []entity.Header) entity.Message {
	m := r.Message()
	m.Record = entity.Record{Key: r.Key, Headers: headers, HeadersOmitted: r.Headers == nil && r.HasHeaders.Bool}
	record := &m.Record
	if r.Key == nil {
		record.KeyOmitted = r.KeySize.Int64
	}
	switch {
	case r.OmittedSHA256 != nil:
		record.State, record.Size, record.SHA256, record.Value = entity.ValueOverLimit, r.OmittedSize.Int64, r.OmittedSHA256, r.Value
	case r.Value != nil:
		record.Value, record.Size = r.Value, r.ValueSize.Int64
	case r.ValueSize.Valid:
		record.State, record.Size = entity.ValueNotLoaded, r.ValueSize.Int64
	case r.DLQTopicID.Valid: // the value is null, so the record is a tombstone
	case r.Payload != nil:
		record.State, record.Value, record.Size = entity.ValueFromPayload, r.Payload, int64(len(r.Payload))
	case r.HasPayload.Bool:
		record.State = entity.ValueNotLoaded
	default:
		record.State = entity.ValueMissing
	}
	applyDefect(record, r.Defect)
	record.Completed = m.Share != nil && m.Share.State == entity.Completed
	return m
}

// shareRecord decodes the column share; it returns nil when the column is NULL.
func shareRecord(column []byte) *entity.ShareRecord {
	if column == nil {
		return nil
	}
	var s struct {
		State      entity.Completion `json:"state"`
		Reason     string            `json:"reason"`
		Duplicates int               `json:"duplicates"`
	}
	if json.Unmarshal(column, &s) != nil {
		return nil
	}
	return &entity.ShareRecord{State: s.State, Reason: s.Reason, Duplicates: s.Duplicates}
}

// repeats decodes the column repeats.
func repeats(column []byte) entity.Repeats {
	if column == nil {
		return entity.Repeats{}
	}
	var found entity.Repeats
	if json.Unmarshal(column, &found) != nil {
		return entity.Repeats{}
	}
	if len(found.Positions) == 0 {
		found.Positions = nil
	}
	return found
}

// TimeOf returns t as a time; the zero time for NULL.
func TimeOf(t sql.NullTime) time.Time {
	if !t.Valid {
		return time.Time{}
	}
	return entity.TruncateTime(t.Time)
}
