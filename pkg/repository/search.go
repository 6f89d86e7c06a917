package repository

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Searcher finds messages by filters. When a filter matches so many messages that the search takes too long, the error
// is a *TooBroadError.
type Searcher interface {
	// Search returns a part of the matching messages, in the order of q.Sort and, for equal times, of their ids in the
	// same direction. Loaded keys, values and headers are limited as in List.
	Search(ctx context.Context, q SearchQuery) (SearchPage, error)

	// CountMatching returns the number of matching messages. The number may be an estimate with CountEstimate and, when
	// counting takes too long, also with CountExact; MatchCount.Exact says whether it is one. An estimate would include
	// topics that the caller may not see, so with Filter.Visible the matching messages are counted up to CountLimit,
	// unless the store's counters contain the exact number.
	CountMatching(ctx context.Context, q CountQuery) (MatchCount, error)

	// Export calls yield for the matching messages, newest first (created_at, then id, descending), until q.Limit is
	// reached or yield returns an error, which Export returns. All messages have their state of the same moment, unless
	// a replica does not finish the export; see ExportQuery.OneSnapshot. Values longer than q.MaxValue bytes are not
	// loaded. yield may use a message only until yield returns. The memory that Export needs does not depend on the
	// number of messages.
	Export(ctx context.Context, q ExportQuery, yield func(*entity.Message) error) error
}

// SearchQuery selects a part of the matching messages.
type SearchQuery struct {
	Filter   entity.Filter
	Archived bool // search archived messages instead of live ones
	Sort     Sort
	After    Cursor // only messages after this cursor in the order; the zero Cursor for all
	Limit    int
	// NoValues leaves out the messages' values: their state is entity.ValueNotLoaded, and the bytes of the values do
	// not count for the limit of the page. An empty value is still reported as empty.
	NoValues bool
}

// SearchPage is a part of the matching messages.
type SearchPage struct {
	Messages []entity.Message
	// Next is the zero Cursor when the page is full or no more messages match. Otherwise the search's time limit ended
	// before the page was full, and the search can continue from Next, which is always after q.After in the order.
	Next Cursor
}

// Sort is an order of messages. The zero value is the newest first.
type Sort struct {
	By        SortKey
	Ascending bool
}

// SortKey is the time by which messages are sorted.
type SortKey int

const (
	// ByCreated sorts by created_at.
	ByCreated SortKey = iota
	// ByLastRetry sorts by last_retry_at; messages that were never retried are left out.
	ByLastRetry
)

// CountQuery counts the matching messages.
type CountQuery struct {
	Filter   entity.Filter
	Archived bool
	How      Counting
}

// Counting selects how exactly messages are counted.
type Counting int

const (
	// CountEstimate uses counters and estimates of the store; it counts rows only with Filter.Visible.
	CountEstimate Counting = iota
	// CountExact counts rows, but returns an estimate when this takes more than a few seconds.
	CountExact
)

// CountLimit is the highest number up to which matching messages are counted for a caller who sees only some topics.
// When there are more, MatchCount.AtLeast is true.
const CountLimit = 10_000

// MatchCount is the number of matching messages.
type MatchCount struct {
	Messages int64
	Exact    bool
	AtLeast  bool // whether the number of matching messages may be higher than Messages; then Exact is false
}

// LimitedCount returns the MatchCount for a number of messages that was counted only up to CountLimit + 1.
func LimitedCount(messages int64) MatchCount {
	if messages > CountLimit {
		return MatchCount{Messages: CountLimit, AtLeast: true}
	}
	return MatchCount{Messages: messages, Exact: true}
}

// ExportQuery selects messages to export.
type ExportQuery struct {
	Filter   entity.Filter
	Archived bool
	Limit    int
	MaxValue int64 // limit in bytes; a longer value is not loaded

	// Parts says what to load of each message; nil loads everything. With Parts, a message has its id, created_at,
	// topics, status, error class, consumer group, dialect and error group, and of its record these parts.
	Parts *RecordParts

	// OneSnapshot makes an export that a replica does not finish return ErrReadAgain. Without it the database continues
	// the export, with messages as they are by then.
	OneSnapshot bool
}

// RecordParts are parts of records.
type RecordParts struct{ Key, Value, Headers bool }

// TooBroadError reports that the search or count took too long because its filter matches too many messages. Its kind
// is entity.ErrInvalid.
type TooBroadError struct{}

func (e *TooBroadError) Error() string {
	return "the filter takes too long to answer: narrow it by topic, group, status or time"
}

// Is makes the error's kind entity.ErrInvalid.
func (e *TooBroadError) Is(target error) bool { return target == entity.ErrInvalid }

// Archive holds messages in a final state that were moved out of the live table. Searcher finds archived messages too.
type Archive interface {
	// GetArchived returns one message of the archive; Get returns only live messages.
	GetArchived(ctx context.Context, id uuid.UUID, maxValue int64) (entity.Message, error)

	// Restore moves a message from the archive to the live table, as PENDING with no attempts used and due for
	// automatic retry at once. It keeps its id, bytes, history and created_at. For an id that is not in the archive,
	// Restore returns a *entity.NotFoundError.
	Restore(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) (entity.Message, error)

	// Erase deletes a message of the archive for good, with its attempts, edits and search document, the stored answers
	// of requests that name it, and the error texts in its notifications and audit entries. The position of its record
	// does not change, so the record is not stored again. For an id that is not in the archive, Erase returns a
	// *entity.NotFoundError.
	Erase(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) (Erased, error)
}

// Erased reports what is left of an erased message. The zero value means nothing.
type Erased struct {
	// RetainedUntil is the end of an Object Lock that prevents the message's bytes from being deleted in the object
	// store; zero when no Object Lock does.
	RetainedUntil time.Time
	// Pending means that the bytes could not be deleted from the object store now, and that the archiver will delete
	// them later.
	Pending bool
}
