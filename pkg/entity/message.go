// Package entity holds the dead-letter message, its states and the rules that bind them. It does no I/O and knows
// no technology; storage, Kafka and HTTP are left to the packages around it.
package entity

import (
	"time"

	"github.com/google/uuid"
)

// UnknownError is the error message of a record that carries none.
const UnknownError = "unknown error"

// DefaultMaxRetries is how many attempts a message gets unless configured.
const DefaultMaxRetries = 3

// Message is one dead letter. All times are UTC, truncated to microseconds (what PostgreSQL keeps); the zero time
// means "never" or "not known".
type Message struct {
	ID            uuid.UUID
	OriginalTopic string // the topic in which the record failed; "" when not known
	ErrorMessage  string // as the consumer wrote it
	RetryCount    int    // attempts started, over the whole lineage
	MaxRetries    int
	Status        Status
	CreatedAt     time.Time
	UpdatedAt     time.Time
	LastRetryAt   time.Time

	Record  Record  // the record of the dead-letter topic, byte for byte
	Source  Source  // its position in the dead-letter topic
	Origin  Origin  // where it failed, and the source of that information
	Failure Failure // the failure that the consumer reported
	Claim   Claim   // of the attempt that holds it; zero for none

	// Group is the error group; uuid.Nil for a row inserted by SQL until the indexer has processed it.
	Group uuid.UUID

	// Parent is the message whose replay failed again and became this one, Root the first message of that lineage.
	// Both are uuid.Nil when the message is its own root.
	Parent uuid.UUID
	Root   uuid.UUID
	// Return identifies the replay that the record's own headers name. That proves nothing: the store checks it
	// when it inserts the message, and then sets Parent.
	Return *Return
	// UnconfirmedReturn: the message arrived in a dead-letter topic that is neither its parent's nor declared for the
	// topic of the attempt. It continues its parent's retry count, but does not change the outcome of the parent's
	// record.
	UnconfirmedReturn bool

	// Unsettled: the message is RETRYING, and it cannot be determined whether the attempt's record is in the target
	// log.
	Unsettled bool
	// NextAttemptAt is when automatic retry may send the message; an operator may send it earlier.
	NextAttemptAt         time.Time
	LastPublishError      string
	LastPublishErrorClass ErrorClass
	Outcome               Outcome
	Consumption           *Consumption // the evidence for Consumed; nil for every other outcome
}

// Header is one Kafka record header. A nil value is Kafka's null, which is not the empty value. Keys are bytes:
// they need not be UTF-8.
type Header struct {
	Key   string
	Value []byte
}

// Record is the record of the dead-letter topic. A nil key or value is Kafka's null. Headers keep their order and
// repeats.
type Record struct {
	Key     []byte
	Value   []byte
	Headers []Header

	// State says what Value holds; see the constants.
	State ValueState
	// Size is the length of the whole value in bytes, also when Value does not hold it; 0 for null.
	Size int64
	// SHA256 is the hash of the value, set for ValueOverLimit only.
	SHA256 []byte
	// Limit is the limit of ingest that the record exceeds, by its name in the configuration; set for ValueOverLimit
	// only, "" where it was not recorded. For a limit of headers, Headers holds the first ones, and Value is set when
	// it is within its own limit.
	Limit string
	// Unreadable is the reason why the record cannot be read, and LastOffset the last offset that this message
	// represents; set for ValueUnreadable only.
	Unreadable string
	LastOffset int64
	// KeyOmitted is the length in bytes of a key that the reader left out because it is long; Key is nil then. 0:
	// Key is the record's key.
	KeyOmitted int64
	// HeadersOmitted: there are more headers than the reader asked for. Headers holds the first ones, or is nil
	// where the reader wants all or none.
	HeadersOmitted bool
}

// ValueState says what Record.Value holds.
type ValueState int

const (
	// ValueStored: Value is the record's value; nil is a tombstone.
	ValueStored ValueState = iota
	// ValueNotLoaded: the store has the bytes, but the reader asked for fewer.
	ValueNotLoaded
	// ValueOverLimit: the record was too large to store as a whole; the dead-letter topic has it until its retention
	// ends.
	ValueOverLimit
	// ValueFromPayload: a row inserted by SQL; Value is its payload as text.
	ValueFromPayload
	// ValueMissing: a row inserted by SQL without a payload. Never a tombstone.
	ValueMissing
	// ValueUnreadable: the message represents offsets of the dead-letter topic that cannot be read. It cannot be sent.
	ValueUnreadable
)

// KeepsHeaders reports whether the store keeps all headers of the record. A record over a limit of headers may have
// only its first ones.
func (r *Record) KeepsHeaders() bool {
	return r.State != ValueOverLimit || r.Limit == "" || r.Limit == LimitRecordBytes
}

// Loaded reports whether the record was read completely, with all that the store has of it.
func (r *Record) Loaded() bool {
	return r.State != ValueNotLoaded && r.KeyOmitted == 0 && !r.HeadersOmitted
}

// LimitRecordBytes is the Limit of a record whose key and value are too large.
const LimitRecordBytes = "max_record_bytes"

// Source is the position of the dead letter itself. The zero value means that the row was inserted by SQL and never
// was a Kafka record.
type Source struct {
	Topic       string
	TopicID     int32 // the store's number for the topic's name
	Incarnation int32 // the store's number for the topic's incarnation
	Partition   int32
	Offset      int64
	Timestamp   time.Time // zero outside the years 1970 to 9999
	RawTime     int64     // the record's timestamp in milliseconds where Timestamp is zero because of that
}

// lastMilli is the last millisecond of the year 9999: RFC 3339 has no later years.
const lastMilli = 253402300799999

// RecordTime returns a record's timestamp as a time, or as a number when it lies outside the years 1970 to 9999.
func RecordTime(milliseconds int64) (at time.Time, raw int64) {
	if milliseconds < 0 || milliseconds > lastMilli {
		return time.Time{}, milliseconds
	}
	return time.UnixMilli(milliseconds).UTC(), 0
}

// Known reports whether the message came from a dead-letter topic.
func (s Source) Known() bool { return s.Topic != "" || s.TopicID != 0 }

// Origin is the position at which the record failed. Nil means not known.
type Origin struct {
	Partition  *int32
	Offset     *int64
	Timestamp  time.Time
	Confidence Confidence
}

// Confidence is the source of the original topic; it decides which replays are allowed.
type Confidence string

const (
	// FromMapping: an operator's rule named the topic.
	FromMapping Confidence = "mapping"
	// FromHeader: a recognised header named it.
	FromHeader Confidence = "header"
	// FromName: guessed from the dead-letter topic's name; replayed one at a time only.
	FromName Confidence = "name"
	// FromOperator: an operator set the topic for this message.
	FromOperator Confidence = "operator"
	// FromNothing: not known; never replayed until an operator sets the topic.
	FromNothing Confidence = "none"
)

// Failure describes the failure that the consumer reported. Empty fields were not reported.
type Failure struct {
	Class         string // exception class, root cause preferred
	StackTrace    string // read from the headers; not stored a second time
	ConsumerGroup string
	Attempts      *int // that the consumer made; nil: not reported
	Dialect       string
}

// Claim is the intent of one attempt, stored before the record is sent. After a crash the attempt is settled by a
// read of the target partition from EndOffset.
type Claim struct {
	ID        uuid.UUID // the attempt's id, sent as header dlq-redrive-id
	ExpiresAt time.Time
	Topic     string
	TopicID   string // Kafka's id of the topic's incarnation; "" when unknown
	Partition int32
	EndOffset int64     // of the target partition, before publishing
	RedriveID uuid.UUID // of the redrive that made the attempt; uuid.Nil for none
}

// Return identifies the attempt that a record's headers name as the one that sent the record. It proves nothing:
// any producer may write these headers, and frameworks copy them to other records.
type Return struct {
	Parent  uuid.UUID // dlq-message-id
	Attempt uuid.UUID // dlq-redrive-id
}

// Outcome is the result of the record that a resolved message was sent as. It only moves forward. The empty outcome
// means that nothing was sent.
type Outcome string

const (
	// Published: the broker acknowledged the record.
	Published Outcome = "published"
	// Consumed: the consumer group has committed an offset after it.
	Consumed Outcome = "consumed"
	// Returned: it failed again and came back as another message.
	Returned Outcome = "returned"
)

// Consumption is the evidence for Consumed: the consumer group has committed an offset after the record's. It is no
// proof, because consumers may skip records.
type Consumption struct {
	Group  string
	Offset int64 // committed
	SeenAt time.Time
}

// NewMessage returns a PENDING message without attempts.
func NewMessage(originalTopic, errorMessage string, now time.Time) Message {
	now = TruncateTime(now)
	return Message{
		ID:            NewID(),
		OriginalTopic: originalTopic,
		ErrorMessage:  errorMessage,
		MaxRetries:    DefaultMaxRetries,
		Status:        Pending,
		CreatedAt:     now,
		UpdatedAt:     now,
		Origin:        Origin{Confidence: FromNothing},
	}
}

// NewID returns a new id. Within a process, later ids sort after earlier ones, which keeps index inserts at the right
// edge.
func NewID() uuid.UUID {
	id, err := uuid.NewV7()
	if err != nil {
		return uuid.New() // the entropy source failed once; v4 reads it again and panics on a second failure
	}
	return id
}

// TruncateTime returns t with the precision of the stores: UTC, truncated to microseconds. The zero time stays zero.
func TruncateTime(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}

// IsRetryable reports whether attempts are left and the message is not final.
func (m *Message) IsRetryable() bool {
	return (m.Status == Pending || m.Status == Retrying) && m.RetryCount < m.MaxRetries
}

// IsFinal reports whether the message is RESOLVED or DEAD.
func (m *Message) IsFinal() bool { return m.Status.Final() }

// FinishedAt is when the message became final; zero while it is not.
func (m *Message) FinishedAt() time.Time {
	if !m.IsFinal() {
		return time.Time{}
	}
	return m.UpdatedAt
}

// Claimed reports whether an attempt holds the message: one in progress, or one that a crash left unsettled.
func (m *Message) Claimed() bool { return m.Status == Retrying }

// CanClaim returns nil when an attempt may start now, else a NotRetryableError. RETRYING is never claimed again.
func (m *Message) CanClaim() error {
	if m.Status == Pending && m.RetryCount < m.MaxRetries {
		return nil
	}
	return &NotRetryableError{Status: m.Status, RetryCount: m.RetryCount, MaxRetries: m.MaxRetries}
}

// Descend makes m, new and PENDING, the child of parent. It continues the parent's retry count, and at the limit it
// is DEAD from the start, so that no lineage is endless.
func (m *Message) Descend(parent *Message) {
	m.Parent, m.Root = parent.ID, parent.Root
	if m.Root == uuid.Nil {
		m.Root = parent.ID
	}
	if m.RetryCount = parent.RetryCount; m.RetryCount >= m.MaxRetries {
		m.Status = Dead
	}
}

// MarkRetrying starts an attempt: it sets RETRYING and LastRetryAt, and counts the attempt. On an error nothing
// changes.
func (m *Message) MarkRetrying(now time.Time) error {
	if err := m.CanClaim(); err != nil {
		return err
	}
	m.move(Retrying, now)
	m.RetryCount++
	m.LastRetryAt = TruncateTime(now)
	return nil
}

// MarkResolved ends the attempt with success.
func (m *Message) MarkResolved(now time.Time) error { return m.to(Resolved, now) }

// MarkPending ends an attempt that failed while attempts are left; it also requeues a DEAD message.
func (m *Message) MarkPending(now time.Time) error { return m.to(Pending, now) }

// MarkDead makes the message DEAD.
func (m *Message) MarkDead(now time.Time) error { return m.to(Dead, now) }

func (m *Message) to(next Status, now time.Time) error {
	if !m.Status.CanMoveTo(next) {
		return &TransitionError{From: m.Status, To: next}
	}
	m.move(next, now)
	return nil
}

func (m *Message) move(next Status, now time.Time) {
	m.Status = next
	m.UpdatedAt = TruncateTime(now)
}
