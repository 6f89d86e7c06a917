package repository

import (
	"context"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Searcher finds messages by filters. What takes the store too long, because a
// filter is wide and nothing can answer it quickly, is a *TooBroadError.
type Searcher interface {
	// Search returns a part of the messages that match, in the order of q.Sort, ties
	// by id in the same direction. What it loads of bytes is bounded as in List.
	Search(ctx context.Context, q SearchQuery) (SearchPage, error)

	// CountMatching returns how many messages match; Exact says whether that is counted.
	// CountEstimate may answer an estimate, CountExact does when counting takes too long.
	// An estimate is of all messages: with Visible it counts as CountLimited does, unless
	// the counters have the exact number.
	CountMatching(ctx context.Context, q CountQuery) (MatchCount, error)

	// Export calls yield for the messages that match, newest first (created_at, then id,
	// descending), as of one moment, until there were limit or yield answers an error,
	// which it returns. Values longer than maxValue bytes are not loaded. A message is
	// yield's until it returns; memory does not grow with their number.
	Export(ctx context.Context, q ExportQuery, yield func(*entity.Message) error) error
}

// SearchQuery asks for a part of the messages that match.
type SearchQuery struct {
	Filter   entity.Filter
	Archived bool // in the archive instead of the live table
	Sort     Sort
	After    Place // only what stands behind it in the order; the zero Place for all
	Limit    int
	// NoValues leaves values where they are: their state is entity.ValueNotLoaded, and
	// they take no room of the page. An empty value is there.
	NoValues bool
}

// SearchPage is a part of the messages that match.
type SearchPage struct {
	Messages []entity.Message
	// Next is where the search goes on when its time was over before the page was full. The
	// zero Place: the page is full, or nothing follows it. It is always behind q.After.
	Next Place
}

// Sort is an order of messages. The zero value is the newest first.
type Sort struct {
	By        SortKey
	Ascending bool
}

// SortKey is a time of a message.
type SortKey int

const (
	// ByCreated sorts by created_at.
	ByCreated SortKey = iota
	// ByLastRetry sorts by last_retry_at; messages that were never retried are left
	// out.
	ByLastRetry
)

// CountQuery asks how many messages match.
type CountQuery struct {
	Filter   entity.Filter
	Archived bool
	How      Counting
}

// Counting says how much a number is worth.
type Counting int

const (
	// CountEstimate takes what the store knows without looking.
	CountEstimate Counting = iota
	// CountExact counts, for some seconds at most.
	CountExact
)

// CountLimit is how far matching messages are counted for a caller who sees some topics
// only.
const CountLimit = 10_000

// MatchCount is how many messages match.
type MatchCount struct {
	Messages int64
	Exact    bool
	AtLeast  bool // there may be more than Messages, not fewer; Exact is false
}

// LimitedCount is what is said of a number of messages up to CountLimit.
func LimitedCount(messages int64) MatchCount {
	if messages > CountLimit {
		return MatchCount{Messages: CountLimit, AtLeast: true}
	}
	return MatchCount{Messages: messages, Exact: true}
}

// ExportQuery asks for all messages that match.
type ExportQuery struct {
	Filter   entity.Filter
	Archived bool
	Limit    int
	MaxValue int64 // bytes
}

// TooBroadError says that the filter matches too slowly. Its kind is entity.ErrInvalid.
type TooBroadError struct{}

func (e *TooBroadError) Error() string {
	return "the filter takes too long to answer: narrow it by topic, group, status or time"
}

// Is makes the error's kind entity.ErrInvalid.
func (e *TooBroadError) Is(target error) bool { return target == entity.ErrInvalid }

// Archive is where messages go that are done with. Searcher finds them there.
type Archive interface {
	// GetArchived returns one message of the archive, as Get does of the live table.
	GetArchived(ctx context.Context, id uuid.UUID, maxValue int64) (entity.Message, error)

	// Restore moves a message from the archive back, as PENDING with no attempts
	// used, due at once. It keeps its id, bytes, history and created_at. An id that
	// is not in the archive is a *entity.NotFoundError.
	Restore(ctx context.Context, id uuid.UUID, cause entity.Cause) (entity.Message, error)
}
