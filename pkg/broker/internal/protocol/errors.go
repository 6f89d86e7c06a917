package protocol

import (
	"errors"
	"fmt"

	"github.com/segmentio/kafka-go"
)

// The kinds of errors. Package broker says what each kind means.
var (
	ErrOutOfRange   = errors.New("offset out of range")
	ErrNotLeader    = errors.New("broker is not the leader")
	ErrNoLeader     = errors.New("partition has no leader")
	ErrUnknownTopic = errors.New("unknown topic or partition")
	ErrUnauthorized = errors.New("not authorized")
	ErrUnavailable  = errors.New("broker unavailable")
	ErrCorrupt      = errors.New("corrupt record batch")
	ErrTooLarge     = errors.New("record is too large to be read")
)

// CodeError translates a broker's error code, nil for none. The error wraps its kind, if it has one, and kafka-go's
// error.
func CodeError(code int16) error {
	if code == 0 {
		return nil
	}
	err := kafka.Error(code)
	if kind := KindOf(err); kind != nil {
		return fmt.Errorf("%w: %w", kind, err)
	}
	return err
}

// KindOf returns the kind of a broker's error, nil for none.
func KindOf(err kafka.Error) error {
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
