package repository

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Repository contains all methods of a store: those of Core, and the features that need a database.
type Repository interface {
	Core
	Features
}

// Core keeps dead letters: it stores them, lists them, retries them one by one or by topic, and remembers
// Idempotency-Keys. Every method is one atomic step: its answer describes the store at one moment. All methods are safe
// for concurrent use. When a store cannot be reached, the error is entity.ErrUnavailable. For an id that does not
// exist, the error is a *entity.NotFoundError, unless the method's comment says otherwise. The store's own clock
// decides every expiry.
//
// A store with an audit trail (Audit) appends an entry, in the same step and with the caller's cause, for every end of
// an attempt, every change by hand, every message that is stored as DEAD, and every change of a redrive's state. It
// appends an entry for a claim only when Claiming.Audit is set.
//
// When the same operation (entity.AuditInfo) requests a change again, and the state after its first change does not
// allow the change, the request changes nothing, adds no second entry, and returns no error: Delete returns nil,
// methods that return a message or a redrive return its present state, and Change counts the message as changed. When
// the cause names no operation, a store may choose one itself.
type Core interface {
	Reader
	Attempts
	Ingest
	Redrives
	Keys
	Operations

	// Delete deletes a message for good. The position of its partition does not change, so the same record is never
	// stored again. For a RETRYING message the error is a *entity.ClaimedError, even if its claim has expired, because
	// its record may have been sent.
	Delete(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) error

	// Requeue makes a DEAD message PENDING with no attempts used; its next automatic attempt is due at once. For a
	// message in any other status the error is a *entity.TransitionError.
	Requeue(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) (entity.Message, error)

	// MarkDead makes a message DEAD. The message must be PENDING, or RETRYING and marked unsettleable. For any other
	// RETRYING message the error is a *entity.ClaimedError, for a final status a *entity.TransitionError. The
	// unsettleable attempt is appended to the history, with class UNKNOWN.
	MarkDead(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) (entity.Message, error)

	// Ping returns nil when the store can be reached.
	Ping(ctx context.Context) error
}

// Features contains the methods that need a store with a database. What the comment of Core says about all methods is
// true of these methods too. A consumer declares an interface with only the methods that it calls.
type Features interface {
	Quarantine
	Selections
	Bounds
	Outcomes
	AutoSends
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

// NeedsDatabaseError reports that an operation needs a database. It also has the kind entity.ErrUnavailable.
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
	// List returns one page of the messages whose original or dead-letter topic is the given topic, newest first
	// (created_at, then id, descending), and the number of all these messages. For an unknown topic the list is empty.
	// A key, value or headers longer than ListValueLimit are not loaded; when the page has loaded ListPageLimit bytes,
	// no further keys, values and headers are loaded.
	List(ctx context.Context, topic string, page Page) (List, error)

	// Get returns one message. A value longer than maxValue bytes is not loaded; when maxValue is negative, values of
	// any size are loaded. A key longer than KeyLimit is not loaded. If the headers exceed HeaderLimit or
	// HeaderBytesLimit, only the first ones are loaded.
	Get(ctx context.Context, id uuid.UUID, maxValue int64) (entity.Message, error)

	// Load returns the messages with the given ids, in their order, with key, headers and whole values, as long as
	// their sizes together do not exceed maxBytes. Ids that no longer exist are left out. taken is the number of ids
	// that were processed; the caller continues with the next id. If the first message alone is larger than maxBytes,
	// nothing is loaded, and the error is a *TooLargeError with the message's size.
	Load(ctx context.Context, ids []uuid.UUID, maxBytes int64) (messages []entity.Message, taken int, err error)

	// ValuePart returns some bytes of a value, so that a caller can read a large value in parts; a value never changes
	// between two calls. Bytes after the end of the value are left out. For a message without a value, the result is
	// empty. The error is a *entity.NotFoundError when the live table, or with p.Archived the archive, does not contain
	// the message.
	ValuePart(ctx context.Context, p ValuePart) ([]byte, error)

	// Counts returns the number of messages by original topic and status.
	Counts(ctx context.Context) ([]Count, error)
}

// ValuePart identifies a part of a message's value: the bytes From to From+Length-1.
type ValuePart struct {
	ID       uuid.UUID
	Archived bool // the message is in the archive
	From     int64
	Length   int64
}

// TooLargeError reports that a message is larger than the parameter maxBytes of Load. Its kind is entity.ErrInvalid.
type TooLargeError struct{ Bytes int64 }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the message takes %d bytes, which is more than may be loaded", e.Bytes)
}

// Is makes the error's kind entity.ErrInvalid.
func (e *TooLargeError) Is(target error) bool { return target == entity.ErrInvalid }

// Limits of List: the bytes of one key, of one value, or of the headers of one message; the bytes of all keys, values,
// headers and error messages of a page; and the number of headers of a page. Keys, values and headers beyond a limit
// are not loaded.
const (
	ListValueLimit  = 64 << 10
	ListPageLimit   = 16 << 20
	ListHeaderLimit = 200_000
)

// Limits of the headers that are loaded when one message is read to be shown: the number of headers and their total
// bytes. A list leaves out all headers of a message that exceeds these limits.
const (
	HeaderLimit      = 10_000
	HeaderBytesLimit = 1 << 20
)

// KeyLimit is the maximum length in bytes of a key that is loaded when one message is read to be shown.
const KeyLimit = HeaderBytesLimit

// Page selects a part of a list. Number is the number of the page, from 1; Size is the number of messages on a page.
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
