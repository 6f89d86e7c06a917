// Package entity defines the dead-letter message, its states and the rules for both. It does no I/O and depends on no
// technology; other packages store messages, read and write Kafka, and serve HTTP.
package entity

import (
	"time"

	"github.com/google/uuid"
)

// UnknownError is the error message that a message gets when its record contains no error message.
const UnknownError = "unknown error"

// DefaultMaxRetries is the number of attempts that a message may have, unless another number is configured.
const DefaultMaxRetries = 3

// Message is one dead letter. All times are in UTC and truncated to microseconds, as PostgreSQL stores them; the zero
// time means "never" or "not known".
type Message struct {
	ID            uuid.UUID
	OriginalTopic string // the topic in which the record failed; "" when not known
	ErrorMessage  string // the error message as the consumer wrote it
	RetryCount    int    // attempts on the message and its ancestors that count: not those given back, refused or rescued; a requeue sets it to 0
	MaxRetries    int
	Status        Status
	CreatedAt     time.Time
	UpdatedAt     time.Time
	LastRetryAt   time.Time

	Record  Record  // the record of the dead-letter topic, byte for byte
	Source  Source  // position of the record in the dead-letter topic
	Origin  Origin  // position where the record failed, and from which source the original topic is known
	Failure Failure // the failure that the consumer reported
	Claim   Claim   // claim of the attempt that holds the message; zero for none

	// Group is the error group. For a message that was inserted by SQL it is uuid.Nil until the indexer has processed
	// the message.
	Group uuid.UUID

	// Parent is the message whose record was sent, failed again and came back as this message. Root is the first message
	// of the lineage, the one that did not come back. Parent and Root are uuid.Nil when the message has no parent.
	Parent uuid.UUID
	Root   uuid.UUID
	// Return names an attempt: according to the record's headers, this attempt sent the record, and the record came
	// back as this message. Headers prove nothing, so the store checks the attempt when it stores the message, and sets
	// Parent only if the attempt exists.
	Return *Return
	// UnconfirmedReturn: the message is a return, but it arrived in a dead-letter topic that is neither that of its parent
	// nor declared for the topic of the attempt. An unconfirmed return continues the retry count of its parent, but does
	// not change the parent's outcome.
	UnconfirmedReturn bool

	// Share is what is known of the record to which a share group's dead letter points; nil for every other message.
	Share *ShareRecord

	// Repeats are further dead letters of the same record.
	Repeats Repeats
	// Digest identifies the record of a dead letter that may repeat another one, or be repeated; uuid.Nil for all others.
	// RecordHash is then the RecordHash of its key and value. Both are set only while the dead letter is being stored.
	Digest     uuid.UUID
	RecordHash int64

	// Unsettled: the message is RETRYING, and it cannot be found out whether the attempt's record is in the target log.
	Unsettled bool
	// NextAttemptAt is the time from which automatic retry may send the message; an operator may send it earlier.
	NextAttemptAt         time.Time
	LastPublishError      string
	LastPublishErrorClass ErrorClass
	Outcome               Outcome
	Consumption           *Consumption // shows why Outcome is Consumed; nil for every other outcome
}

// Header is one header of a Kafka record. A nil value is Kafka's null, which differs from an empty value. A key may
// have bytes that are not UTF-8.
type Header struct {
	Key   string
	Value []byte
}

// Record is the record in the dead-letter topic. A nil key or value is Kafka's null. Headers have their original order,
// and may repeat.
type Record struct {
	Key     []byte
	Value   []byte
	Headers []Header

	// State says what Value holds; see the constants.
	State ValueState
	// Size is the length of the whole value in bytes, even when Value contains only a part of it or nothing; 0 for
	// null.
	Size int64
	// SHA256 is the hash of the value, set for ValueOverLimit only.
	SHA256 []byte
	// Limit names the limit of ingest that the record exceeds, as in the configuration. It is set only for
	// ValueOverLimit; "" when the limit's name was not stored. When the record exceeds a limit of headers, Headers has
	// the first headers, and Value is set if it does not exceed its own limit.
	Limit string
	// Completed: key, value and headers are those of the record that failed, which was read from the original topic. In
	// Headers, the headers of the record that failed come first, then those of the dead letter.
	Completed bool
	// Unreadable is the reason why the record cannot be read. One message may represent several offsets that cannot be
	// read; LastOffset is the last of them. Unreadable and LastOffset are set only for ValueUnreadable.
	Unreadable string
	LastOffset int64
	// KeyOmitted is the length in bytes of a key that the reader did not load because it is long; then Key is nil. When
	// KeyOmitted is 0, Key is the record's key.
	KeyOmitted int64
	// HeadersOmitted: the record has more headers than the reader loads. Headers contains the first headers; Headers is
	// nil when the reader loads either all headers or none.
	HeadersOmitted bool
}

// ValueState says what Record.Value contains.
type ValueState int

const (
	// ValueStored: Value is the record's value; nil is a tombstone.
	ValueStored ValueState = iota
	// ValueNotLoaded: the store has the value, but the reader did not load it, because it is longer than requested.
	ValueNotLoaded
	// ValueOverLimit: the record was too large to be stored completely. The dead-letter topic contains the whole record
	// until Kafka deletes it.
	ValueOverLimit
	// ValueFromPayload: the message was inserted by SQL; Value is the text of its column payload.
	ValueFromPayload
	// ValueMissing: the message was inserted by SQL without a payload. It is never sent as a tombstone.
	ValueMissing
	// ValueUnreadable: the message represents offsets of the dead-letter topic that cannot be read. It cannot be sent.
	ValueUnreadable
)

// KeepsHeaders reports whether the store has all headers of the record. Of a record over a limit of headers, it may
// have only the first headers.
func (r *Record) KeepsHeaders() bool {
	return r.State != ValueOverLimit || r.Limit == "" || r.Limit == LimitRecordBytes
}

// Loaded reports whether the reader loaded everything that the store has of the record.
func (r *Record) Loaded() bool {
	return r.State != ValueNotLoaded && r.KeyOmitted == 0 && !r.HeadersOmitted
}

// LimitRecordBytes is the Limit of a record whose key and value together exceed the setting max_record_bytes.
const LimitRecordBytes = "max_record_bytes"

// Source is the position of the record in the dead-letter topic. It is zero for a message that was inserted by SQL and
// does not come from a record.
type Source struct {
	Topic       string
	TopicID     int32 // the store's number for the topic's name
	Incarnation int32 // the store's number for the topic's incarnation
	Partition   int32
	Offset      int64
	Timestamp   time.Time // the record's timestamp; zero when it lies outside the years 1970 to 9999
	RawTime     int64     // the record's timestamp in milliseconds, if it lies outside the years 1970 to 9999; otherwise 0
}

// lastMilli is the last millisecond of the year 9999. RFC 3339 cannot express later times.
const lastMilli = 253402300799999

// RecordTime returns a record's timestamp as a time. When it lies outside the years 1970 to 9999, it returns the
// milliseconds as raw instead.
func RecordTime(milliseconds int64) (at time.Time, raw int64) {
	if milliseconds < 0 || milliseconds > lastMilli {
		return time.Time{}, milliseconds
	}
	return time.UnixMilli(milliseconds).UTC(), 0
}

// Known reports whether the message comes from a record of a dead-letter topic.
func (s Source) Known() bool { return s.Topic != "" || s.TopicID != 0 }

// Origin is the position at which the record failed, in the original topic. Fields that are nil are not known.
type Origin struct {
	Partition  *int32
	Offset     *int64
	Timestamp  time.Time
	Confidence Confidence
}

// Confidence says from which source the original topic is known. It decides in which ways the message may be sent.
type Confidence string

const (
	// FromMapping: a mapping rule, made by operators or in the configuration, named the topic.
	FromMapping Confidence = "mapping"
	// FromHeader: a recognised header named the topic.
	FromHeader Confidence = "header"
	// FromName: the topic was guessed from the name of the dead-letter topic. Messages whose topic was guessed can only be
	// retried one by one.
	FromName Confidence = "name"
	// FromOperator: an operator set the topic for this message.
	FromOperator Confidence = "operator"
	// FromNothing: the topic is not known. The message cannot be sent until an operator sets the topic, or names one in
	// an edit.
	FromNothing Confidence = "none"
)

// Failure describes the failure that the consumer reported. Empty fields were not reported.
type Failure struct {
	Class         string // class of the exception, preferably that of the root cause
	StackTrace    string // read from the headers; not stored separately
	ConsumerGroup string
	Attempts      *int // how often the consumer tried to process the record; nil when not reported
	Dialect       string
}

// Claim is the stored intent to send a message once; it is stored before the record is sent. When the process dies, the
// attempt is settled by reading the target partition from EndOffset on.
type Claim struct {
	ID        uuid.UUID // id of the attempt, sent as the header dlq-redrive-id
	ExpiresAt time.Time
	Topic     string
	TopicID   string // Kafka's id of the topic's incarnation; "" when unknown
	Partition int32
	EndOffset int64     // end offset of the target partition before the record is sent
	RedriveID uuid.UUID // redrive that made the attempt; uuid.Nil for none
}

// Return names the attempt that, according to a record's headers, has sent the record. Such headers are no proof: any
// producer may write them, and frameworks copy them to other records.
type Return struct {
	Parent  uuid.UUID // id from the header dlq-message-id
	Attempt uuid.UUID // id from the header dlq-redrive-id
}

// Outcome says what happened to the record that was sent for a RESOLVED message. It changes only in the order of the
// constants below. "" means that nothing was sent.
type Outcome string

const (
	// Published: the broker acknowledged the record.
	Published Outcome = "published"
	// Consumed: the consumer group has committed an offset after that of the record.
	Consumed Outcome = "consumed"
	// Returned: the record failed again and came back as another message.
	Returned Outcome = "returned"
)

// Consumption is the evidence for Consumed: the consumer group has committed an offset after the record's. A committed
// offset does not prove that the record was processed, because consumers may skip records.
type Consumption struct {
	Group  string
	Offset int64 // the committed offset, which is after that of the sent record
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

// NewID returns a new id. Within a process, each id is higher than the ids before it, so that PostgreSQL inserts new
// entries at the end of an index.
func NewID() uuid.UUID {
	id, err := uuid.NewV7()
	if err != nil {
		return uuid.New() // NewV7 failed to read random bytes; New tries again, and panics if it fails too
	}
	return id
}

// TruncateTime returns t with the precision of the stores, in UTC and truncated to microseconds. The zero time stays
// zero.
func TruncateTime(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}

// IsFinal reports whether the message is RESOLVED or DEAD.
func (m *Message) IsFinal() bool { return m.Status.Final() }

// FinishedAt returns when the status became final; the zero time while it is not final.
func (m *Message) FinishedAt() time.Time {
	if !m.IsFinal() {
		return time.Time{}
	}
	return m.UpdatedAt
}

// Claimed reports whether a claim holds the message: that of an attempt in progress, or of an attempt whose process
// died.
func (m *Message) Claimed() bool { return m.Status == Retrying }

// CanClaim returns nil when the message can be claimed now, otherwise a NotRetryableError. A RETRYING message can never
// be claimed again.
func (m *Message) CanClaim() error {
	if m.Status == Pending && m.RetryCount < m.MaxRetries {
		return nil
	}
	return &NotRetryableError{Status: m.Status, RetryCount: m.RetryCount, MaxRetries: m.MaxRetries}
}

// Descend makes m, a new PENDING message, the child of parent. m continues the retry count of its parent. When the
// retry count has reached its limit, m becomes DEAD at once, so that no lineage is endless.
func (m *Message) Descend(parent *Message) {
	m.Parent, m.Root = parent.ID, parent.Root
	if m.Root == uuid.Nil {
		m.Root = parent.ID
	}
	if m.RetryCount = parent.RetryCount; m.RetryCount >= m.MaxRetries {
		m.Status = Dead
	}
}

// MarkRetrying starts an attempt: it makes the message RETRYING, sets LastRetryAt, and counts the attempt. When it
// returns an error, nothing has changed.
func (m *Message) MarkRetrying(now time.Time) error {
	if err := m.CanClaim(); err != nil {
		return err
	}
	m.move(Retrying, now)
	m.RetryCount++
	m.LastRetryAt = TruncateTime(now)
	return nil
}

// MarkResolved ends an attempt that succeeded.
func (m *Message) MarkResolved(now time.Time) error { return m.to(Resolved, now) }

// MarkPending ends an attempt that failed, when the message has attempts left. It also requeues a DEAD message.
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
