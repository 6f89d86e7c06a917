package repository

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// ArchivedRow is a message of the archive as it is moved between the database and an object: every column of the
// archive, the bytes of the record, and a copy of the attempts. The tags name the columns of the database and of the
// Parquet file. Nil pointers, nil slices and the zero ids of GroupID, ParentID and RootID are NULL. An ArchivedRow
// contains no claim, because an archived message has none.
type ArchivedRow struct {
	ID         uuid.UUID `db:"id" json:"id" parquet:"id,uuid"`
	ArchivedAt Micros    `db:"archived_at" json:"archived_at" parquet:"archived_at,timestamp(microsecond)"`
	CreatedAt  Micros    `db:"created_at" json:"created_at" parquet:"created_at,timestamp(microsecond)"`
	UpdatedAt  Micros    `db:"updated_at" json:"updated_at" parquet:"updated_at,timestamp(microsecond)"`

	OriginalTopic string `db:"original_topic" json:"original_topic" parquet:"original_topic,dict"`
	DLQTopic      string `db:"dlq_topic" json:"-" parquet:"dlq_topic,dict"` // "" when it is not known
	Status        string `db:"status" json:"status" parquet:"status,dict"`
	ErrorMessage  string `db:"error_message" json:"error_message" parquet:"error_message"`
	RetryCount    int32  `db:"retry_count" json:"retry_count" parquet:"retry_count"`
	MaxRetries    int32  `db:"max_retries" json:"max_retries" parquet:"max_retries"`

	Key     Bytes            `db:"key" json:"key" parquet:"key,optional"`
	Value   Bytes            `db:"value" json:"value" parquet:"value,optional"`
	Headers []ArchivedHeader `db:"-" json:"-" parquet:"headers,list,optional"`
	// Packed are the Headers in the encoding of the database.
	Packed  Bytes   `db:"headers" json:"headers" parquet:"-"`
	Payload *string `db:"payload" json:"-" parquet:"payload,optional"` // the JSON projection

	PayloadNote   *string `db:"payload_note" json:"payload_note" parquet:"payload_note,optional"`
	OmittedSize   *int64  `db:"omitted_size" json:"omitted_size" parquet:"omitted_size,optional"`
	OmittedSHA256 Bytes   `db:"omitted_sha256" json:"omitted_sha256" parquet:"omitted_sha256,optional"`
	Defect        *string `db:"defect" json:"-" parquet:"defect,optional"` // JSON

	DLQTopicID       *int32  `db:"dlq_topic_id" json:"dlq_topic_id" parquet:"dlq_topic_id,optional"`
	DLQIncarnationID *int32  `db:"dlq_incarnation_id" json:"dlq_incarnation_id" parquet:"dlq_incarnation_id,optional"`
	DLQPartition     *int32  `db:"dlq_partition" json:"dlq_partition" parquet:"dlq_partition,optional"`
	DLQOffset        *int64  `db:"dlq_offset" json:"dlq_offset" parquet:"dlq_offset,optional"`
	DLQTimestamp     *Micros `db:"dlq_timestamp" json:"dlq_timestamp" parquet:"dlq_timestamp,optional,timestamp(microsecond)"`
	DLQTimestampMs   *int64  `db:"dlq_timestamp_ms" json:"dlq_timestamp_ms" parquet:"dlq_timestamp_ms,optional"`

	OriginalPartition *int32  `db:"original_partition" json:"original_partition" parquet:"original_partition,optional"`
	OriginalOffset    *int64  `db:"original_offset" json:"original_offset" parquet:"original_offset,optional"`
	OriginalTimestamp *Micros `db:"original_timestamp" json:"original_timestamp" parquet:"original_timestamp,optional,timestamp(microsecond)"`
	OriginConfidence  *string `db:"origin_confidence" json:"origin_confidence" parquet:"origin_confidence,optional"`

	ConsumerGroup    *string   `db:"consumer_group" json:"consumer_group" parquet:"consumer_group,optional"`
	ConsumerAttempts *int32    `db:"consumer_attempts" json:"consumer_attempts" parquet:"consumer_attempts,optional"`
	Dialect          *string   `db:"dialect" json:"dialect" parquet:"dialect,optional"`
	ErrorClass       *string   `db:"error_class" json:"error_class" parquet:"error_class,optional"`
	GroupID          uuid.UUID `db:"group_id" json:"group_id,omitzero" parquet:"group_id,optional,uuid"`
	ParentID         uuid.UUID `db:"parent_id" json:"parent_id,omitzero" parquet:"parent_id,optional,uuid"`
	RootID           uuid.UUID `db:"root_id" json:"root_id,omitzero" parquet:"root_id,optional,uuid"`

	AttemptNo             int32   `db:"attempt_no" json:"attempt_no" parquet:"attempt_no"`
	Rescues               int32   `db:"rescues" json:"rescues" parquet:"rescues"`
	LastRetryAt           *Micros `db:"last_retry_at" json:"last_retry_at" parquet:"last_retry_at,optional,timestamp(microsecond)"`
	LastPublishError      *string `db:"last_publish_error" json:"last_publish_error" parquet:"last_publish_error,optional"`
	LastPublishErrorClass *string `db:"last_publish_error_class" json:"last_publish_error_class" parquet:"last_publish_error_class,optional"`
	Outcome               *string `db:"outcome" json:"outcome" parquet:"outcome,optional"`
	RecordHash            *int64  `db:"record_hash" json:"record_hash" parquet:"record_hash,optional"`

	Attempts string `db:"attempts" json:"-" parquet:"attempts"` // JSON: a list of the attempts, each with its edit

	// Version identifies the row that was read. It changes with every update.
	Version string `db:"version" json:"-" parquet:"-"`
}

// ArchivedHeader is a header of a record. A nil Value is null.
type ArchivedHeader struct {
	Key   Bytes  `parquet:"key"`
	Value *Bytes `parquet:"value,optional"`
}

// Bytes are bytes whose JSON is the text form of PostgreSQL's type bytea; nil is NULL.
type Bytes []byte

// MarshalJSON implements json.Marshaler.
func (b Bytes) MarshalJSON() ([]byte, error) {
	if b == nil {
		return []byte("null"), nil
	}
	out := make([]byte, 0, 2*len(b)+5)
	out = append(out, `"\\x`...)
	return append(hex.AppendEncode(out, b), '"'), nil
}

// Scan implements sql.Scanner.
func (b *Bytes) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*b = nil
	case []byte:
		*b = append(make([]byte, 0, len(v)), v...)
	case string:
		*b = []byte(v)
	default:
		return fmt.Errorf("cannot read bytes from %T", src)
	}
	return nil
}

// Micros is a time in microseconds since 1970, in UTC.
type Micros int64

// MicrosOf returns the microseconds of a time.
func MicrosOf(t time.Time) Micros { return Micros(t.UnixMicro()) }

// Time returns the time.
func (m Micros) Time() time.Time { return time.UnixMicro(int64(m)).UTC() }

// MarshalJSON implements json.Marshaler.
func (m Micros) MarshalJSON() ([]byte, error) { return json.Marshal(m.Time()) }

// Scan implements sql.Scanner.
func (m *Micros) Scan(src any) error {
	t, ok := src.(time.Time)
	if !ok {
		return fmt.Errorf("cannot read a time from %T", src)
	}
	*m = MicrosOf(t)
	return nil
}

// ArchiveObject is an entry of the manifest, the list of all objects. It describes one object, which contains messages
// of a single day of archived_at.
type ArchiveObject struct {
	ID       uuid.UUID `db:"id" json:"id"` // stays the same when the object is written again without some of its messages
	Key      string    `db:"object_key" json:"object_key"`
	Bucket   string    `db:"bucket" json:"bucket"`
	Day      string    `db:"day" json:"day"` // such as 2026-11-26, in UTC
	Messages int64     `db:"messages" json:"messages"`
	Bytes    int64     `db:"bytes" json:"bytes"`
	SHA256   Bytes     `db:"sha256" json:"sha256"`

	FirstID       uuid.UUID `db:"first_id" json:"first_id"`
	LastID        uuid.UUID `db:"last_id" json:"last_id"`
	FirstCreated  Micros    `db:"first_created_at" json:"first_created_at"`
	LastCreated   Micros    `db:"last_created_at" json:"last_created_at"`
	FirstArchived Micros    `db:"first_archived_at" json:"first_archived_at"`
	LastArchived  Micros    `db:"last_archived_at" json:"last_archived_at"`

	Topics []ObjectTopic `db:"-" json:"-"`
	Hidden []uuid.UUID   `db:"-" json:"-"` // messages in the object that are no longer in the archive
}

// ErrObject is the kind of errors about an object of the archive that cannot be read, although the manifest names it. To
// try again is useless before an operator has mended the object.
var ErrObject = errors.New("an object of the archive cannot be read")

// ObjectError names the object.
type ObjectError struct{ Key, Reason string }

func (e *ObjectError) Error() string { return "object " + e.Key + " of the archive " + e.Reason }

// Is makes the error's kind ErrObject.
func (e *ObjectError) Is(target error) bool { return target == ErrObject }

// ObjectQuery selects entries of the manifest. Entries that have no message of the query may be included.
type ObjectQuery struct {
	CreatedAfter  time.Time   // inclusive; zero for no limit
	CreatedBefore time.Time   // exclusive; zero for no limit
	Topic         string      // original or dead-letter topic; "" for any
	MessageIDs    []uuid.UUID // empty for all messages
}

// ObjectTopic is the number of messages with these topics that an object contains and that are in the archive.
type ObjectTopic struct {
	Original string `json:"original_topic"`
	DLQ      string `json:"dlq_topic"`
	Messages int64  `json:"messages"`
}

// ObjectCopy is an object outside the manifest: it was replaced, or did not enter it.
type ObjectCopy struct {
	Key           string    `db:"object_key"`
	Bucket        string    `db:"bucket"`
	Due           bool      `db:"due"` // whether no process writes the object any more, so that it may be deleted unless an Object Lock retains it
	RetainedUntil time.Time `db:"-"`   // time until which Object Lock forbids that the object is deleted; zero when it does not forbid this
}

// ObjectStats describes the objects of the manifest.
type ObjectStats struct {
	Objects  int64 `db:"objects"`
	Messages int64 `db:"messages"`
	Bytes    int64 `db:"bytes"`
	// WaitingSince is the time since which bytes of messages that left the archive wait to be deleted from objects;
	// zero when none wait. Bytes that an Object Lock retains do not count.
	WaitingSince time.Time `db:"-"`
}

// Add counts a row in the entry, and extends the ranges of the entry so that they include the row.
func (o *ArchiveObject) Add(r *ArchivedRow) {
	if o.Messages == 0 {
		o.FirstID, o.LastID = r.ID, r.ID
		o.FirstCreated, o.LastCreated = r.CreatedAt, r.CreatedAt
		o.FirstArchived, o.LastArchived = r.ArchivedAt, r.ArchivedAt
	}
	o.Messages++
	o.LastID = r.ID // rows are added in the order of their ids
	o.FirstCreated, o.LastCreated = min(o.FirstCreated, r.CreatedAt), max(o.LastCreated, r.CreatedAt)
	o.FirstArchived, o.LastArchived = min(o.FirstArchived, r.ArchivedAt), max(o.LastArchived, r.ArchivedAt)
}

// ArchivedEntry is an archived message that a redrive selects.
type ArchivedEntry struct {
	ID            uuid.UUID
	CreatedAt     Micros
	OriginalTopic string
}

// ArchivedWork says which archived messages are restored or erased one after the other, and how.
type ArchivedWork struct {
	IDs   []uuid.UUID
	Cause entity.AuditInfo
	// Hold is the time for which a restored message is not due for automatic retry.
	Hold time.Duration
	// Before is called before each change of a message. An error ends the work, and is returned. It may be nil.
	Before func() error
	// Done is called once for each message that was tried: with nil, or with an error after which trying again is
	// useless. These are a *entity.NotFoundError when the message is not in the archive, a *ObjectError when its object
	// is missing or damaged, the kind entity.ErrConflict when a live message has its id, and the kind entity.ErrRefused
	// when the database refuses the change.
	Done func(id uuid.UUID, err error)
}

// PickedRow is a row of the archive that is about to be written to an object.
type PickedRow struct {
	ID         uuid.UUID `db:"id"`
	ArchivedAt time.Time `db:"archived_at"`
	Bytes      int64     `db:"bytes"` // approximate number of bytes that the row uses in memory
}

// ShownLimits limits what is loaded of messages that are stored in objects. For messages in the database, other methods
// apply the same limits.
type ShownLimits struct {
	Value    int64 // limit in bytes for one value, above which the value is not loaded; negative for no limit
	Key      int64 // limit in bytes for one key, above which the key is not loaded
	Headers  int64 // headers with more bytes are not loaded; when negative, the first headers are loaded, as by GetArchived
	Page     int64 // when earlier messages have loaded more bytes than this, a message gets no key, headers and value; 0 for no limit
	NoValues bool  // whether the values of all messages are left out
}
