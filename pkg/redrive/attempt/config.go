package attempt

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

// Config holds the durations of attempts.
type Config struct {
	ClaimExpiry    time.Duration // how long a claim is valid; after that, another process may settle the attempt
	SettleInterval time.Duration // time between two runs of Settle
	StuckAfter     time.Duration // how long a message may be RETRYING before the settler reports it as stuck
	Backoff        wait.Backoff  // pause until the next automatic attempt on a message that failed
}

// SendWindow returns the maximum age of a claim at which its record may be sent.
func (c Config) SendWindow() time.Duration { return c.ClaimExpiry / 2 }

// finishWindow returns the maximum age of a claim at which its result is stored: less than the claim's expiry.
func (c Config) finishWindow() time.Duration { return c.ClaimExpiry * 2 / 3 }

// Store is the part of a repository that attempts need. Its methods keep the promises of repository.Core, and return
// soon after their context ends. If the database does not answer, they return an error even when the context has no
// deadline: the loops of this program call them without a deadline, also while it shuts down.
type Store interface {
	Get(ctx context.Context, id uuid.UUID, maxValue int64) (entity.Message, error)
	Load(ctx context.Context, ids []uuid.UUID, maxBytes int64) (messages []entity.Message, taken int, err error)
	Claim(ctx context.Context, claims []repository.Claim, how repository.Claiming) ([]entity.Message, error)
	Finish(ctx context.Context, results []repository.Result, cause entity.AuditInfo) ([]repository.Finished, error)
	Expired(ctx context.Context, q repository.ExpiredQuery) ([]entity.Message, error)
	Stuck(ctx context.Context, age time.Duration) (int64, error)
	History(ctx context.Context, id uuid.UUID) ([]entity.Attempt, error)
	MarkDead(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) (entity.Message, error)
	Delete(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) error
	Record(ctx context.Context, entry entity.AuditEntry) error
}

// Publisher writes the records of messages to their original topics, or to the topics that their edits or redirects
// name. Results are in the order of the input.
type Publisher interface {
	// Plan decides to which partitions messages with their edits would be sent, and refuses messages that cannot be
	// sent. It ignores the targets in batch. With bulk, no person has reviewed each message, so Plan also refuses
	// messages that it would accept for a retry of a single message.
	Plan(ctx context.Context, batch []entity.Outgoing, bulk bool) []entity.Target

	// Publish sends claimed messages. After ctx ends, it begins no send and returns GivenBack for the rest; a send
	// under way is completed.
	Publish(ctx context.Context, batch []entity.Outgoing) []entity.Delivery

	// FindMany searches target partitions for the records of earlier claims. The result for a claim is Acknowledged if
	// the partition contains its record, and GivenBack if it does not. The result is InDoubt with class UNKNOWN if the
	// partition cannot show whether the record was written, and InDoubt with another class if the partition cannot be
	// read now.
	FindMany(ctx context.Context, claims []entity.Claim) []entity.Delivery
}

// TopicPartition is the target of a record; partition -1 means the whole topic, and is used when the topic's
// partitions are unknown.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// PartitionOf returns the partition of a target.
func PartitionOf(t entity.Target) TopicPartition { return TopicPartition{t.Topic, t.Partition} }
