package repository

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Topics are the original topics of the messages that are there.
type Topics interface {
	// TopicSummaries returns the visible original topics that have messages, in the
	// order of the bytes of their names; "" stands for messages of unknown origin, of
	// which those of visible dead-letter topics count.
	TopicSummaries(ctx context.Context, q TopicQuery) ([]TopicSummary, error)

	// TopicTotals counts the messages of each of the named original topics that has some,
	// of those without one as "", and of all other topics together. nil names the first
	// MaxTotals of them.
	TopicTotals(ctx context.Context, names []string) ([]TopicTotal, error)

	// IngestPositions returns how far each partition of the dead-letter topics has
	// been stored, of their present lives only, by topic and partition.
	IngestPositions(ctx context.Context) ([]IngestPosition, error)
}

// TopicQuery asks for a part of the original topics.
type TopicQuery struct {
	Visible *entity.TopicPatterns // nil: all topics
	After   *string               // only topics whose names follow this one; nil: from the first
	Limit   int                   // 0: all
}

// TopicSummary is what there is of an original topic.
type TopicSummary struct {
	Topic          string
	DLQTopics      []string // where its messages came from, by name
	Counts         map[entity.Status]int64
	OldestPending  time.Time // created_at; zero when none is PENDING
	LastSeen       time.Time // created_at of the newest message
	ConsumerGroups []string  // that failed on it or are configured for it, at most MaxTopicGroups, by name
}

// MaxTotals is how many topics TopicTotals names by itself.
const MaxTotals = 1000

// TopicTotal is how many messages of an original topic, or of all others, there are.
type TopicTotal struct {
	Topic         string
	Others        bool // of all topics that are not named
	Counts        map[entity.Status]int64
	OldestPending time.Time // created_at; zero when none is PENDING
}

// IngestPosition is the next offset to store of a dead-letter partition.
type IngestPosition struct {
	Topic     string
	TopicID   string // Kafka's; "" where there is none
	Partition int32
	Next      int64
}

// Compare orders positions by topic and partition.
func (p IngestPosition) Compare(q IngestPosition) int {
	return cmp.Or(strings.Compare(p.Topic, q.Topic), cmp.Compare(p.Partition, q.Partition))
}
