package repository

import (
	"context"
	"errors"
	"fmt"

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
// When the same operation (entity.AuditInfo) requests a change that it has already made, the change is not made
// again, gets no second entry, and is no error: Delete answers nil, methods that return a message or a redrive
// return its present state, Change counts the message as changed. A store may choose an operation itself for a
// cause that has none.
type Core interface {
	Reader
	Attempts
	Ingest
	Redrives
	Keys
	Operations

	// Delete removes a message for good. Its position stays consumed: the same record is never stored again.
	// RETRYING, expired or not, answers *entity.ClaimedError: an unsettled attempt may still be in doubt.
	Delete(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) error

	// Requeue moves DEAD to PENDING with no attempts used; the next automatic
	// attempt is due at once. Any other state is a *entity.TransitionError.
	Requeue(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) (entity.Message, error)

	// MarkDead moves PENDING, or RETRYING that is marked unsettleable, to DEAD; any other RETRYING is
	// *entity.ClaimedError, a final state *entity.TransitionError. The attempt that ends this way is appended to the
	// history, with class UNKNOWN.
	MarkDead(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) (entity.Message, error)

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
	Views
	Redirects
	SearchIndex
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

// Offset returns the number of messages on earlier pages.
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
