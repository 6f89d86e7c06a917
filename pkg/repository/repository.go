// Package repository is the storage contract, without code that stores anything. The store
// in PostgreSQL keeps all of it, the one in memory Core; repositorytest proves each promise
// on each store that makes it.
package repository

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Repository is Core and everything that a store needs a database for.
type Repository interface {
	Core
	Features
}

// Core keeps dead letters: it takes them in, shows them, retries them one by one or by
// topic, and remembers Idempotency-Keys. Every method is one atomic step, and what it
// returns was true at one moment. All are safe for concurrent use. A store that cannot be
// reached answers entity.ErrUnavailable; ids that do not exist answer *entity.NotFoundError
// unless a method says otherwise. The store's own clock decides every expiry.
//
// A store with an audit trail (Audit) appends to it, in the same step and with the caller's
// cause, every end of an attempt, every change by hand, every death on arrival, and every
// change of a redrive's state; a claim when Claiming.Audit says so.
//
// A change that the same operation (entity.Cause) made before is no error and has no second
// entry: Delete answers nil, methods that return a message or a redrive return it as it is
// now, Change counts it as changed. A store may give a cause without an operation one of
// its own.
type Core interface {
	Reader
	Attempts
	Ingest
	Redrives
	Keys
	Operations

	// Delete removes a message for good, its position stays consumed: the same
	// record is never stored again. RETRYING, expired or not, answers
	// *entity.ClaimedError: an attempt that nobody settled may still be in doubt.
	Delete(ctx context.Context, id uuid.UUID, cause entity.Cause) error

	// Requeue moves DEAD to PENDING with no attempts used; the next automatic
	// attempt is due at once. Any other state is a *entity.TransitionError.
	Requeue(ctx context.Context, id uuid.UUID, cause entity.Cause) (entity.Message, error)

	// GiveUp moves PENDING, or RETRYING that is marked unsettleable, to DEAD; any
	// other RETRYING is *entity.ClaimedError, a final state *entity.TransitionError.
	// The attempt that ends so is appended to the history, with class UNKNOWN.
	GiveUp(ctx context.Context, id uuid.UUID, cause entity.Cause) (entity.Message, error)

	// Ping answers nil when the store can be reached.
	Ping(ctx context.Context) error
}

// Features are what only a store with a database has. Core's general promises hold for
// them, too. Whoever uses one declares the part of it that it needs.
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

// NeedsDatabaseError says that something is not possible without a database. It is of
// kind entity.ErrUnavailable, too.
type NeedsDatabaseError struct{ Feature string }

func (e *NeedsDatabaseError) Error() string {
	return e.Feature + " needs a database, and none is configured: messages are in memory (see database in the configuration)"
}

// Is makes the error's kinds ErrNeedsDatabase and entity.ErrUnavailable.
func (e *NeedsDatabaseError) Is(target error) bool {
	return target == ErrNeedsDatabase || target == entity.ErrUnavailable
}

// Change is one thing to do to several messages.
type Change struct {
	Action        entity.RedriveAction
	IDs           []uuid.UUID
	OriginalTopic string // for RedriveMap
	OverHeader    bool   // for RedriveMap: also where the record's own header names the topic
	// Lease is the batch that the messages are from; its zero value is none. Once another
	// owner has the batch, or it is done, nothing is changed.
	Lease Lease
}

// Lease is one owner's hold on a batch of a redrive.
type Lease struct {
	RedriveID uuid.UUID
	Number    int
	Owner     uuid.UUID
}

// Reader answers questions and changes nothing.
type Reader interface {
	// List returns one page of the messages whose original or dead-letter topic is topic,
	// newest first (created_at, then id, descending), and their number; an unknown topic is
	// an empty list. Keys, values and headers longer than ListValueLimit are not loaded,
	// nor are those after the first ListPageLimit bytes of the page.
	List(ctx context.Context, topic string, page Page) (List, error)

	// Get returns one message. A value longer than maxValue bytes is not loaded;
	// maxValue < 0 loads it whatever its size. A key longer than KeyLimit is not
	// loaded. Of more headers than HeaderLimit and
	// HeaderBytesLimit allow the first are loaded.
	Get(ctx context.Context, id uuid.UUID, maxValue int64) (entity.Message, error)

	// Load returns the messages of ids, in that order, with key, headers and whole values,
	// as far as their sizes stay within maxBytes. Ids that no longer exist are left out.
	// taken is how many of ids were looked at; the caller goes on after them. If the first
	// alone is larger than maxBytes, nothing is loaded and a *TooLargeError has its size.
	Load(ctx context.Context, ids []uuid.UUID, maxBytes int64) (messages []entity.Message, taken int, err error)

	// ValuePart returns some bytes of a value, which never change: a large one is read
	// without being held. What is beyond its end is left out. A message that is not where p
	// looks is a *entity.NotFoundError; one without a value has no bytes.
	ValuePart(ctx context.Context, p ValuePart) ([]byte, error)

	// Counts returns how many messages there are by original topic and status.
	Counts(ctx context.Context) ([]Count, error)
}

// ValuePart names Length bytes of a message's value, from byte From on.
type ValuePart struct {
	ID       uuid.UUID
	Archived bool // look in the archive, and only there
	From     int64
	Length   int64
}

// TooLargeError says that a message takes more memory than Load was given. Its kind
// is entity.ErrInvalid.
type TooLargeError struct{ Bytes int64 }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the message takes %d bytes, which is more than may be loaded", e.Bytes)
}

// Is makes the error's kind entity.ErrInvalid.
func (e *TooLargeError) Is(target error) bool { return target == entity.ErrInvalid }

// What List loads: bytes of a key, of a value, or of the headers of a message, bytes
// of all keys, values and headers of a page, and headers of a page.
const (
	ListValueLimit  = 64 << 10
	ListPageLimit   = 16 << 20
	ListHeaderLimit = 200_000
)

// What is loaded of the headers of one message where it is read to be shown: so many
// of the first ones, with so many bytes in all of them. A list leaves out all headers
// of a message that has more.
const (
	HeaderLimit      = 10_000
	HeaderBytesLimit = 1 << 20
)

// KeyLimit is the longest key, in bytes, that is loaded of one message where it is read
// to be shown.
const KeyLimit = HeaderBytesLimit

// Page asks for a part of a list. Number counts from 1; both must be positive.
type Page struct{ Number, Size int }

// Offset is how many messages stand before the page.
func (p Page) Offset() int64 { return int64(p.Number-1) * int64(p.Size) }

// List is one page and the number of all messages that match.
type List struct {
	Messages []entity.Message
	Total    int64
}

// HasNext reports whether there are messages behind page p.
func (l List) HasNext(p Page) bool { return p.Offset()+int64(p.Size) < l.Total }

// Count is the number of messages of one original topic in one status.
type Count struct {
	OriginalTopic string
	Status        entity.Status
	Messages      int64
}

// Place is where a message stands in an order by created_at and id.
type Place struct {
	CreatedAt time.Time // or the other time that a list is sorted by
	ID        uuid.UUID
}

// Room is the memory that a caller of a store may use for what it reads.
type Room interface {
	// Take reserves bytes, or says why they cannot be had now. What was reserved
	// belongs to the caller until the caller releases it.
	Take(bytes int64) error
}

type roomKey struct{}

// WithRoom returns a context whose reads of messages and attempts take their memory
// from room while they read: an error of Take ends the read, and is returned wrapped.
func WithRoom(ctx context.Context, room Room) context.Context {
	return context.WithValue(ctx, roomKey{}, room)
}

// TakeRoom takes bytes from the room of ctx. Without one there is no limit.
func TakeRoom(ctx context.Context, bytes int64) error {
	room, ok := ctx.Value(roomKey{}).(Room)
	if !ok {
		return nil
	}
	return room.Take(bytes)
}

// What a message and a header take in memory beside their bytes, about.
const (
	messageOverhead = 1 << 10
	headerOverhead  = 40
)

// SizeInMemory is about how many bytes a message takes, with all that was loaded of
// it.
func SizeInMemory(m *entity.Message) int64 {
	n := messageOverhead + len(m.ErrorMessage) + len(m.Record.Key) + len(m.Record.Value) + headerOverhead*len(m.Record.Headers)
	for _, h := range m.Record.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return int64(n)
}

// EditSizeInMemory is about how many bytes an attempt's edit takes; 0 for none.
func EditSizeInMemory(e *entity.Edit) int64 {
	if e == nil {
		return 0
	}
	return SizeInMemory(&entity.Message{Record: entity.Record{Key: e.Key, Value: e.Value, Headers: e.Headers}}) + int64(len(e.Patch))
}
