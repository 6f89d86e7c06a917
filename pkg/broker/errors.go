package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/broker/internal/conn"
	"github.com/dlq-manager/dlq-manager/pkg/broker/internal/protocol"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

// Errors of a partition, a topic or a request. Most errors that package broker returns wrap one of these errors;
// others, such as context.Canceled, wrap none of them.
var (
	// ErrOutOfRange means that the log does not have the requested offset: the log starts after the offset or ends
	// before it.
	ErrOutOfRange = protocol.ErrOutOfRange
	// ErrNotLeader means that the request went to a broker that does not, or no longer, lead the partition; the caller
	// must read the leader again with Topics.
	ErrNotLeader = protocol.ErrNotLeader
	// ErrNoLeader means that the partition has no leader at the moment.
	ErrNoLeader = protocol.ErrNoLeader
	// ErrUnknownTopic means that the topic or the partition does not exist.
	ErrUnknownTopic = protocol.ErrUnknownTopic
	// ErrUnauthorized means that the user's sign-in failed, or that the user lacks the permission for the
	// operation.
	ErrUnauthorized = protocol.ErrUnauthorized
	// ErrUnavailable means that the broker cannot answer the request now, but perhaps later.
	ErrUnavailable = protocol.ErrUnavailable
	// ErrCorrupt means that a batch has a wrong checksum or cannot be read. Records before that batch are still delivered.
	ErrCorrupt = protocol.ErrCorrupt
	// ErrGone means that the record was removed from the log, by retention, compaction or an operator.
	ErrGone = errors.New("record is gone")
	// ErrTooLarge means that a record or its batch does not fit into the memory for reading it.
	ErrTooLarge = protocol.ErrTooLarge
	// ErrNotTried means that no byte of the record was sent: an earlier record of the same call failed, or the time was
	// over while the call waited for the partition's turn or for the end of a throttle.
	ErrNotTried = errors.New("record not tried")
	// ErrClosed means that Cluster.Close was called before.
	ErrClosed = conn.ErrClosed
)

// ThrottledError says that the broker answered only that the client must pause, because of a quota. Its kind is
// ErrUnavailable.
type ThrottledError struct{ Pause time.Duration }

func (e *ThrottledError) Error() string { return fmt.Sprintf("broker throttles reads for %s", e.Pause) }

// Is makes the error's kind ErrUnavailable.
func (e *ThrottledError) Is(target error) bool { return target == ErrUnavailable }

// throttledTries is how often RetryThrottled tries.
const throttledTries = 5

// RetryThrottled calls read again after each pause that its error, a *ThrottledError, asks for. It returns the last
// error after a few tries, or when ctx ends.
func RetryThrottled(ctx context.Context, read func() error) error {
	for try := 1; ; try++ {
		err := read()
		var throttled *ThrottledError
		if try == throttledTries || !errors.As(err, &throttled) || !wait.Sleep(ctx, throttled.Pause) {
			return err
		}
	}
}

// PartitionErrors contains the error of each partition for which a request failed; the results of the other partitions
// are valid. errors.Is looks into the errors of all partitions.
type PartitionErrors map[TopicPartition]error

// Error lists the partitions in a fixed order.
func (e PartitionErrors) Error() string { return errors.Join(e.Unwrap()...).Error() }

// Unwrap returns one error for each partition, in a fixed order.
func (e PartitionErrors) Unwrap() []error {
	parts := make([]TopicPartition, 0, len(e))
	for tp := range e {
		parts = append(parts, tp)
	}
	slices.SortFunc(parts, protocol.ComparePartitions)
	errs := make([]error, 0, len(parts))
	for _, tp := range parts {
		errs = append(errs, fmt.Errorf("%s: %w", tp, e[tp]))
	}
	return errs
}

// orNil returns nil for an empty map, because an empty map stored in an error would not be equal to nil.
func (e PartitionErrors) orNil() error {
	if len(e) == 0 {
		return nil
	}
	return e
}
