package broker

import (
	"errors"
	"fmt"
	"slices"

	"github.com/segmentio/kafka-go"
)

// Errors of a partition, a topic or a request. This package's errors wrap one of these and kafka-go's own.
var (
	// ErrOutOfRange means that the log does not have the requested offset: it starts later, or ends earlier.
	ErrOutOfRange = errors.New("offset out of range")
	// ErrNotLeader means that the broker asked does not lead the partition (any more); ask Topics again.
	ErrNotLeader = errors.New("broker is not the leader")
	// ErrNoLeader means that the partition has no leader at the moment.
	ErrNoLeader = errors.New("partition has no leader")
	// ErrUnknownTopic means that the topic or the partition does not exist.
	ErrUnknownTopic = errors.New("unknown topic or partition")
	// ErrUnauthorized means that the cluster refuses the operation to the user, or refuses the user.
	ErrUnauthorized = errors.New("not authorized")
	// ErrUnavailable means that the broker cannot serve now and may later.
	ErrUnavailable = errors.New("broker unavailable")
	// ErrCorrupt means that a batch has a wrong checksum or cannot be read; the records before it are delivered.
	ErrCorrupt = errors.New("corrupt record batch")
	// ErrGone means that the record was removed from the log, by retention, compaction or an operator.
	ErrGone = errors.New("record is gone")
	// ErrTooLarge means that a record or its batch does not fit into the memory for reading it.
	ErrTooLarge = errors.New("record is too large to be read")
	// ErrNotTried means that no byte of the record was sent: an earlier record failed, or the time was over.
	ErrNotTried = errors.New("record not tried")
	// ErrClosed means that the cluster was closed by its owner.
	ErrClosed = errors.New("kafka cluster is closed")
)

// PartitionErrors are the failed partitions of a request; the other results are valid. errors.Is sees all.
type PartitionErrors map[TopicPartition]error

// Error lists the partitions in a fixed order.
func (e PartitionErrors) Error() string { return errors.Join(e.Unwrap()...).Error() }

// Unwrap returns one error for each partition, in a fixed order.
func (e PartitionErrors) Unwrap() []error {
	parts := make([]TopicPartition, 0, len(e))
	for tp := range e {
		parts = append(parts, tp)
	}
	slices.SortFunc(parts, compareParts)
	errs := make([]error, 0, len(parts))
	for _, tp := range parts {
		errs = append(errs, fmt.Errorf("%s: %w", tp, e[tp]))
	}
	return errs
}

// orNil keeps an empty map from becoming a non-nil error.
func (e PartitionErrors) orNil() error {
	if len(e) == 0 {
		return nil
	}
	return e
}

// codeError translates a broker's error code, nil for none.
func codeError(code int16) error {
	if code == 0 {
		return nil
	}
	err := kafka.Error(code)
	if kind := kindOf(err); kind != nil {
		return fmt.Errorf("%w: %w", kind, err)
	}
	return err
}

func kindOf(err kafka.Error) error {
	switch err {
	case kafka.OffsetOutOfRange:
		return ErrOutOfRange
	case kafka.NotLeaderForPartition, kafka.FencedLeaderEpoch, kafka.UnknownLeaderEpoch, kafka.ReplicaNotAvailable:
		return ErrNotLeader
	case kafka.LeaderNotAvailable, kafka.ListenerNotFound:
		return ErrNoLeader
	case kafka.UnknownTopicOrPartition, kafka.InvalidTopic, kafka.UnknownTopicID, kafka.InconsistentTopicID:
		return ErrUnknownTopic
	case kafka.TopicAuthorizationFailed, kafka.GroupAuthorizationFailed, kafka.ClusterAuthorizationFailed,
		kafka.SASLAuthenticationFailed, kafka.UnsupportedSASLMechanism, kafka.IllegalSASLState:
		return ErrUnauthorized
	case kafka.BrokerNotAvailable, kafka.RequestTimedOut, kafka.KafkaStorageError, kafka.OffsetNotAvailable,
		kafka.NetworkException, kafka.NotEnoughReplicas, kafka.NotEnoughReplicasAfterAppend,
		kafka.GroupLoadInProgress, kafka.GroupCoordinatorNotAvailable, kafka.NotCoordinatorForGroup,
		kafka.ThrottlingQuotaExceeded:
		return ErrUnavailable
	case kafka.InvalidMessage:
		return ErrCorrupt
	default:
		return nil
	}
}
