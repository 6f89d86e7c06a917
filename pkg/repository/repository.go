// Package repository is the storage contract, without an implementation. The PostgreSQL store implements all of it,
// the memory store only Core; repositorytest tests each promise on every store that makes it.
package repository

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Repository is Core and the features that need a database.
type Repository interface {
	Core
	Features
}

// Core keeps dead letters: it stores them, lists them, retries them one by one or by topic, and remembers
// Idempotency-Keys. Every method is one atomic step, and its result was true at one moment. All methods are safe for
// concurrent use. A store that cannot be reached answers entity.ErrUnavailable; ids that do not exist answer
// *entity.NotFoundError unless a method says otherwise. The store's own clock decides every expiry.
//
// A store with an audit trail (Audit) appends an entry, in the same step and with the caller's cause, for every end
// of an attempt, every change by hand, every message stored as DEAD, and every change of a redrive's state; for a
// claim when Claiming.Audit is set.
//
// A change that the same operation (entity.Cause) has already made is no error and gets no second entry: Delete
// answers nil, methods that return a message or a redrive return its present state, Change counts it as changed. For
// a cause without an operation, a store may choose one itself.
type Core interface {
	Reader
	Attempts
	Ingest
	Redrives
	Keys
	Operations

	// Delete removes a message for good. Its position stays consumed: the same record is never stored again.
	// RETRYING, expired or not, answers *entity.ClaimedError: an unsettled attempt may still be in doubt.
	Delete(ctx context.Context, id uuid.UUID, cause entity.Cause) error

	// Requeue moves DEAD to PENDING with no attempts used; the next automatic
	// attempt is due at once. Any other state is a *entity.TransitionError.
	Requeue(ctx context.Context, id uuid.UUID, cause entity.Cause) (entity.Message, error)

	// GiveUp moves PENDING, or RETRYING that is marked unsettleable, to DEAD; any other RETRYING is
	// *entity.ClaimedError, a final state *entity.TransitionError. The attempt that ends this way is appended to the
	// history, with class UNKNOWN.
	GiveUp(ctx context.Context, id uuid.UUID, cause entity.Cause) (entity.Message, error)

	// Ping answers nil when the store can be reached.
	Ping(ctx context.Context) error
}

// Features need a store with a database. Core's general promises hold for them, too. A consumer declares an interface
// with only the methods that it calls.
type Features interface {
	Quarantine
	Selections
	Outcomes
	Audit
	Searcher
	Archive
	Groups
	Topics
	Mappings
	Catalogue
	Activity
	Notifications
	ArchiveRuns
	RecentGroups
}

// ErrNeedsDatabase is the kind of every NeedsDatabaseError.
var ErrNeedsDatabase = errors.New("needs a database")

// NeedsDatabaseError reports that an operation needs a database. It is of kind entity.ErrUnavailable, too.
type NeedsDatabaseError struct{ Feature string }

func (e *NeedsDatabaseError) Error() string {
	return e.Feature + " needs a database, and none is configured: messages are in memory (see database in the configuration)"
}

// Is makes the error's kinds ErrNeedsDatabase and entity.ErrUnavailable.
func (e *NeedsDatabaseError) Is(target error) bool {
	return target == ErrNeedsDatabase || target == entity.ErrUnavailable
}

// Change is one action on several messages.
type Change struct {
	Action        entity.RedriveAction
	IDs           []uuid.UUID
	OriginalTopic string // for RedriveMap
	OverHeader    bool   // for RedriveMap: also when the record's own header names the topic
	// Lease is the batch that the messages are from; its zero value is none. If another owner holds the batch by now,
	// or it is done, nothing is changed.
	Lease Lease
}

// Lease is one owner's lease on a batch of a redrive.
type Lease struct {
	RedriveID uuid.UUID
	Number    int
	Owner     uuid.UUID
}

// Reader reads messages and changes nothing.
type Reader interface {
	// List returns one page of the messages whose original or dead-letter topic is topic,
	// newest first (created_at, then id, descending), and their number; an unknown topic is
	// an empty list. Keys, values and headers longer than ListValueLimit are not loaded,
	// nor are those after the first ListPageLimit bytes of the page.
	List(ctx context.Context, topic string, page Page) (List, error)

	// Get returns one message. A value longer than maxValue bytes is not loaded; maxValue < 0 loads it whatever its
	// size. A key longer than KeyLimit is not loaded. If the headers exceed HeaderLimit or HeaderBytesLimit, only the
	// first ones are loaded.
	Get(ctx context.Context, id uuid.UUID, maxValue int64) (entity.Message, error)

	// Load returns the messages of ids, in that order, with key, headers and whole values, until their sizes exceed
	// maxBytes. Ids that no longer exist are left out. taken is how many of ids were processed; the caller continues
	// after them. If the first message alone is larger than maxBytes, nothing is loaded and a *TooLargeError has its
	// size.
	Load(ctx context.Context, ids []uuid.UUID, maxBytes int64) (messages []entity.Message, taken int, err error)

	// ValuePart returns some bytes of a value, so that a large value can be read without loading all of it; values
	// never change. Bytes beyond the end are left out. If the message is not in the table that p selects, the error
	// is a *entity.NotFoundError; a message without a value has no bytes.
	ValuePart(ctx context.Context, p ValuePart) ([]byte, error)

	// Counts returns the number of messages by original topic and status.
	Counts(ctx context.Context) ([]Count, error)
}

// ValuePart names Length bytes of a message's value, from byte From on.
type ValuePart struct {
	ID       uuid.UUID
	Archived bool // read only from the archive
	From     int64
	Length   int64
}

// TooLargeError reports that a message needs more memory than Load was given. Its kind is entity.ErrInvalid.
type TooLargeError struct{ Bytes int64 }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the message takes %d bytes, which is more than may be loaded", e.Bytes)
}

// Is makes the error's kind entity.ErrInvalid.
func (e *TooLargeError) Is(target error) bool { return target == entity.ErrInvalid }

// Limits of List: bytes of a key, of a value, and of the headers of a message, bytes of all keys, values and headers
// of a page, and number of headers of a page.
const (
	ListValueLimit  = 64 << 10
	ListPageLimit   = 16 << 20
	ListHeaderLimit = 200_000
)

// Limits of the headers that are loaded when one message is read to be shown: the number of headers and their total
// bytes. A list leaves out all headers of a message that has more.
const (
	HeaderLimit      = 10_000
	HeaderBytesLimit = 1 << 20
)

// KeyLimit is the longest key, in bytes, that is loaded when one message is read to be shown.
const KeyLimit = HeaderBytesLimit

// Page selects a part of a list. Number counts from 1; both must be positive.
type Page struct{ Number, Size int }

// Offset is the number of messages on earlier pages.
func (p Page) Offset() int64 { return int64(p.Number-1) * int64(p.Size) }

// List is one page and the number of all matching messages.
type List struct {
	Messages []entity.Message
	Total    int64
}

// HasNext reports whether there are messages after page p.
func (l List) HasNext(p Page) bool { return p.Offset()+int64(p.Size) < l.Total }

// Count is the number of messages of one original topic in one status.
type Count struct {
	OriginalTopic string
	Status        entity.Status
	Messages      int64
}

// Place is a cursor: the position of a message in an order by created_at and id.
type Place struct {
	CreatedAt time.Time // or the other time by which the list is sorted
	ID        uuid.UUID
}

// Room limits the memory that a caller of a store may use for what it reads.
type Room interface {
	// Take reserves bytes, or returns an error when they are not available now. The caller owns the reservation until
	// it releases it.
	Take(bytes int64) error
}

type roomKey struct{}

// WithRoom returns a context whose reads of messages and attempts reserve their memory in room: an error of Take ends
// the read, and is returned wrapped.
func WithRoom(ctx context.Context, room Room) context.Context {
	return context.WithValue(ctx, roomKey{}, room)
}

// TakeRoom reserves bytes in the room of ctx. Without a room there is no limit.
func TakeRoom(ctx context.Context, bytes int64) error {
	room, ok := ctx.Value(roomKey{}).(Room)
	if !ok {
		return nil
	}
	return room.Take(bytes)
}

// Approximate memory of a message and of a header in addition to their bytes.
const (
	messageOverhead = 1 << 10
	headerOverhead  = 40
)

// SizeInMemory is the approximate number of bytes that a message takes in memory, with everything that was loaded of
// it.
func SizeInMemory(m *entity.Message) int64 {
	n := messageOverhead + len(m.ErrorMessage) + len(m.Record.Key) + len(m.Record.Value) + headerOverhead*len(m.Record.Headers)
	for _, h := range m.Record.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return int64(n)
}

// EditSizeInMemory is the approximate number of bytes that an attempt's edit takes; 0 for none.
func EditSizeInMemory(e *entity.Edit) int64 {
	if e == nil {
		return 0
	}
	return SizeInMemory(&entity.Message{Record: entity.Record{Key: e.Key, Value: e.Value, Headers: e.Headers}}) + int64(len(e.Patch))
}
