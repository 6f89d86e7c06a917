// Package entity holds the dead-letter message, its states and the rules that bind them. It does no I/O and knows
// no technology; storage, Kafka and HTTP are left to the packages around it.
package entity

import (
	"time"

	"github.com/google/uuid"
)

// UnknownError is the error message of a record whose producer said nothing.
const UnknownError = "unknown error"

// DefaultMaxRetries is how many attempts a message gets unless configured.
const DefaultMaxRetries = 3

// Message is one dead letter. All times are UTC, truncated to microseconds (what PostgreSQL keeps); the zero time
// means "never" or "not known".
type Message struct {
	ID            uuid.UUID
	OriginalTopic string // the topic the record failed in; "" when nobody knows
	ErrorMessage  string // the consumer's words; never ours
	RetryCount    int    // attempts started, over the whole lineage
	MaxRetries    int
	Status        Status
	CreatedAt     time.Time
	UpdatedAt     time.Time
	LastRetryAt   time.Time

	Record  Record  // the bytes, as the dead-letter topic had them
	Source  Source  // where in the dead-letter topic it stood
	Origin  Origin  // where it failed, and how sure that is
	Failure Failure // what the consumer said about it
	Claim   Claim   // the attempt that holds it; zero when none does

	// Group is the error group; uuid.Nil until the catalogue has looked at a row that was put in by SQL.
	Group uuid.UUID

	// Parent is the message whose replay failed again and became this one, Root the first of that line; uuid.Nil
	// when the message is its own root.
	Parent uuid.UUID
	Root   uuid.UUID
	// Return is what the record's own headers say of such a replay: no proof. The store looks for one when the
	// message comes in, and keeps Parent instead.
	Return *Return
	// UnconfirmedReturn: the message arrived in a dead-letter topic that is neither its parent's nor declared for
	// the topic of the attempt. It counts on from its parent and says nothing about the outcome of the parent's
	// record.
	UnconfirmedReturn bool

	// Unsettled: RETRYING, and nobody can tell whether the attempt's record is in the target log.
	Unsettled bool
	// NextAttemptAt binds automatic retry only.
	NextAttemptAt         time.Time
	LastPublishError      string
	LastPublishErrorClass ErrorClass
	Outcome               Outcome
	Consumption           *Consumption // what Consumed rests on; nil for every other outcome
}

// Header is one Kafka record header. A nil value is Kafka's null, which is not the empty value. Keys are bytes:
// they need not be UTF-8.
type Header struct {
	Key   string
	Value []byte
}

// Record is what the dead-letter topic carried. Nil key or value is Kafka's null. Headers keep their order and
// their repeats.
type Record struct {
	Key     []byte
	Value   []byte
	Headers []Header

	// State says how Value is to be read; see the constants.
	State ValueState
	// Size is the length of the whole value in bytes, also when Value does not hold it; 0 for null.
	Size int64
	// SHA256 of the value, set for ValueOverLimit only.
	SHA256 []byte
	// Limit is the limit of ingest that the record is over, as the configuration names it; set for ValueOverLimit
	// only, "" where it was not noted. Over a limit of headers there are the first of them; Value is set when
	// within its own.
	Limit string
	// Unreadable is why the record cannot be read, and LastOffset the last offset of the log that this message
	// stands for; set for ValueUnreadable only.
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
	// ValueOverLimit: the record was too large to store as a whole; the dead-letter topic has it for as long as it
	// keeps it.
	ValueOverLimit
	// ValueFromPayload: a row put in by SQL; Value is its payload as text.
	ValueFromPayload
	// ValueMissing: a row put in by SQL without a payload. Never a tombstone.
	ValueMissing
	// ValueUnreadable: the message stands for offsets of the dead-letter topic that cannot be read. There is
	// nothing to send.
	ValueUnreadable
)

// KeepsHeaders reports whether Headers are all that the record has, as far as they were asked for. Those of a
// record over a limit may be the first ones only.
func (r *Record) KeepsHeaders() bool {
	return r.State != ValueOverLimit || r.Limit == "" || r.Limit == LimitRecordBytes
}

// Loaded reports whether the reader has all that the store has of the record.
func (r *Record) Loaded() bool {
	return r.State != ValueNotLoaded && r.KeyOmitted == 0 && !r.HeadersOmitted
}

// LimitRecordBytes is the Limit of a record whose key and value are too large.
const LimitRecordBytes = "max_record_bytes"

// Source is the position of the dead letter itself. The zero value means that the row was put in by SQL and never
// was a record.
type Source struct {
	Topic       string
	TopicID     int32 // the store's number of the topic's name
	Incarnation int32 // the store's number of the topic's present life
	Partition   int32
	Offset      int64
	Timestamp   time.Time // zero outside the years 1970 to 9999
	RawTime     int64     // the record's timestamp in milliseconds where Timestamp is zero because of that
}

// lastMilli is the end of the year 9999: RFC 3339 has no later years.
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

// Origin is where the record failed. A nil partition or offset is not known.
type Origin struct {
	Partition  *int32
	Offset     *int64
	Timestamp  time.Time
	Confidence Confidence
}

// Confidence says where the original topic was learnt, which decides how freely a message may be sent back.
type Confidence string

const (
	// FromMapping: an operator's rule named the topic.
	FromMapping Confidence = "mapping"
	// FromHeader: a recognised header named it.
	FromHeader Confidence = "header"
	// FromName: guessed from the dead-letter topic's name; replayed one at a time only.
	FromName Confidence = "name"
	// FromOperator: somebody said so for this message.
	FromOperator Confidence = "operator"
	// FromNothing: not known; never replayed until somebody says where.
	FromNothing Confidence = "none"
)

// Failure is what was known when the consumer gave up. Empty means not said.
type Failure struct {
	Class         string // exception class, root cause preferred
	StackTrace    string // read from the headers; not stored a second time
	ConsumerGroup string
	Attempts      *int // that the consumer made; nil when not said
	Dialect       string
}

// Claim is the intent of one attempt, stored before anything is sent: with it a crash can be settled by reading
// the target partition from the noted offset.
type Claim struct {
	ID        uuid.UUID // travels as header dlq-redrive-id; one per attempt
	ExpiresAt time.Time
	Topic     string
	TopicID   string // Kafka's, of the topic's present life; "" where there is none
	Partition int32
	EndOffset int64     // of the target partition, before publishing
	RedriveID uuid.UUID // of the redrive that made the attempt; uuid.Nil for none
}

// Return names the attempt that a record claims to be the replay of. Anyone may write such headers, and frameworks
// copy them onto other records.
type Return struct {
	Parent  uuid.UUID // dlq-message-id
	Attempt uuid.UUID // dlq-redrive-id
}

// Outcome says what became of a resolved message's record. It only moves forward. The empty outcome means that
// nothing was sent.
type Outcome string

const (
	// Published: the broker acknowledged the record.
	Published Outcome = "published"
	// Consumed: the consumer group's committed offset passed it.
	Consumed Outcome = "consumed"
	// Returned: it failed again and came back as another message.
	Returned Outcome = "returned"
)

// Consumption is the evidence for Consumed: the group has committed an offset behind the record's. Not a proof:
// groups may skip records.
type Consumption struct {
	Group  string
	Offset int64 // committed
	SeenAt time.Time
}

// NewMessage returns a PENDING message without attempts.
func NewMessage(originalTopic, errorMessage string, now time.Time) Message {
	now = Moment(now)
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

// NewID returns a new identity. Later identities sort behind earlier ones of the same process, which keeps index
// inserts at the right edge.
func NewID() uuid.UUID {
	id, err := uuid.NewV7()
	if err != nil {
		return uuid.New() // the entropy source failed once; v4 asks it again and panics if it is gone
	}
	return id
}

// Moment returns t as the stores keep it: UTC, truncated to microseconds.
func Moment(t time.Time) time.Time {
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

// Claimed reports whether an attempt owns the message: under way, or left by a crash and not settled yet.
func (m *Message) Claimed() bool { return m.Status == Retrying }

// CanClaim returns nil when an attempt may start now, else a NotRetryableError. RETRYING is never claimed again.
func (m *Message) CanClaim() error {
	if m.Status == Pending && m.RetryCount < m.MaxRetries {
		return nil
	}
	return &NotRetryableError{Status: m.Status, RetryCount: m.RetryCount, MaxRetries: m.MaxRetries}
}

// Descend makes m, new and PENDING, the child of parent: it goes on counting where the parent's attempt stood, and
// at the limit it is DEAD from the start, so no line of replays is endless.
func (m *Message) Descend(parent *Message) {
	m.Parent, m.Root = parent.ID, parent.Root
	if m.Root == uuid.Nil {
		m.Root = parent.ID
	}
	if m.RetryCount = parent.RetryCount; m.RetryCount >= m.MaxRetries {
		m.Status = Dead
	}
}

// MarkRetrying starts an attempt: RETRYING, one attempt more, retried now. After an error nothing has changed.
func (m *Message) MarkRetrying(now time.Time) error {
	if err := m.CanClaim(); err != nil {
		return err
	}
	m.move(Retrying, now)
	m.RetryCount++
	m.LastRetryAt = Moment(now)
	return nil
}

// MarkResolved ends the attempt with success.
func (m *Message) MarkResolved(now time.Time) error { return m.to(Resolved, now) }

// MarkPending ends the attempt without success, attempts being left; it is also how a DEAD message is requeued.
func (m *Message) MarkPending(now time.Time) error { return m.to(Pending, now) }

// MarkDead gives the message up.
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
	m.UpdatedAt = Moment(now)
}
