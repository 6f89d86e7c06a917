package broker

import (
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/segmentio/kafka-go"
	kafkaprotocol "github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/produce"

	"github.com/dlq-manager/dlq-manager/pkg/broker/internal/conn"
	"github.com/dlq-manager/dlq-manager/pkg/broker/internal/protocol"
)

// Fate is the state of a record after a failed write.
type Fate int

// The four fates. A fate that is later in this list means more work for the caller.
const (
	// NotSent: this call has not written the record and never will. Another try may succeed.
	NotSent Fate = iota + 1
	// RecordRejected: the broker refuses this record for good, or the record cannot be encoded. Other records of the same
	// call may have been written.
	RecordRejected
	// TopicRefused: the topic does not exist, or the user may not write to it. The record was not written.
	TopicRefused
	// InDoubt: the record may have been sent, and no answer says whether the broker has appended it. The broker may also
	// append it a little later.
	InDoubt
)

// String names the fate for logs.
func (f Fate) String() string {
	switch f {
	case NotSent:
		return "not sent"
	case RecordRejected:
		return "record rejected"
	case TopicRefused:
		return "topic refused"
	case InDoubt:
		return "in doubt"
	default:
		return fmt.Sprintf("fate %d", int(f))
	}
}

// Class names the cause of a failure for operators. Its text is stored and shown.
type Class string

// The classes of this package.
const (
	ClassNetworkTimeout    Class = "NETWORK_TIMEOUT"
	ClassBrokerUnavailable Class = "BROKER_UNAVAILABLE"
	ClassRateLimited       Class = "RATE_LIMITED"
	ClassBadRecord         Class = "BAD_RECORD"
	ClassUnauthorized      Class = "UNAUTHORIZED"
	ClassUnknownTopic      Class = "UNKNOWN_TOPIC"
	ClassUnknown           Class = "UNKNOWN"
)

// ProduceError is the reason why a record was not acknowledged. Use errors.As to find it, errors.Is for the cause.
type ProduceError struct {
	Fate  Fate
	Class Class
	Err   error
}

// Error names fate, class and cause.
func (e *ProduceError) Error() string {
	return fmt.Sprintf("produce: %s (%s): %v", e.Fate, e.Class, e.Err)
}

// Unwrap returns the cause.
func (e *ProduceError) Unwrap() error { return e.Err }

// Classify returns the class of any error of this package, ClassUnknown if none fits.
func Classify(err error) Class {
	var code kafka.Error
	var untrusted *tls.CertificateVerificationError
	switch {
	case errors.As(err, &code) && classOf(code) != "":
		return classOf(code)
	case errors.Is(err, ErrUnauthorized), errors.As(err, &untrusted):
		return ClassUnauthorized
	case errors.Is(err, ErrUnknownTopic):
		return ClassUnknownTopic
	case code == 0 && conn.IsTimeout(err): // a broker that answers with an error until the time limit has passed is not a slow network
		return ClassNetworkTimeout
	case errors.Is(err, ErrUnavailable), errors.Is(err, ErrNoLeader), errors.Is(err, ErrNotLeader),
		errors.Is(err, kafkaprotocol.ErrNoLeader), errors.Is(err, ErrClosed):
		return ClassBrokerUnavailable
	default:
		return ClassUnknown
	}
}

// classOf returns the class of a broker's error code if the code's kind does not determine the class; otherwise "".
func classOf(code kafka.Error) Class {
	switch code {
	case kafka.RequestTimedOut, kafka.NetworkException:
		return ClassNetworkTimeout
	case kafka.ThrottlingQuotaExceeded:
		return ClassRateLimited
	case kafka.MessageSizeTooLarge, kafka.RecordListTooLarge, kafka.InvalidRecord, kafka.InvalidTimestamp,
		kafka.InvalidMessage, kafka.InvalidMessageSize, kafka.UnsupportedForMessageFormat:
		return ClassBadRecord
	case kafka.PolicyViolation, kafka.TransactionalIDAuthorizationFailed, kafka.BrokerAuthorizationFailed:
		return ClassUnauthorized
	default:
		return ""
	}
}

// verdict is the next step after one answer to a produce request.
type verdict int

const (
	written       verdict = iota
	notWritten            // the broker has not written the batch: try again
	maybeWritten          // the broker may have written the batch: try again with the same bytes and sequence
	recordsRefuse         // the broker refuses at least one record of the batch
	topicRefuse
	staleProducer // the broker does not accept the sequence: get a new producer id
)

// judge translates a broker's answer. Errors that Kafka also returns after an append leave the batch in doubt.
func judge(code int16) verdict {
	switch kafka.Error(code) {
	case 0, kafka.DuplicateSequenceNumber:
		return written
	case kafka.MessageSizeTooLarge, kafka.RecordListTooLarge, kafka.InvalidRecord, kafka.InvalidTimestamp,
		kafka.InvalidMessageSize, kafka.InvalidMessage, kafka.UnsupportedForMessageFormat:
		return recordsRefuse
	case kafka.UnknownTopicOrPartition, kafka.LeaderNotAvailable, kafka.NotEnoughReplicas,
		kafka.ThrottlingQuotaExceeded, kafka.BrokerNotAvailable:
		return notWritten
	case kafka.TopicAuthorizationFailed, kafka.ClusterAuthorizationFailed, kafka.InvalidTopic,
		kafka.PolicyViolation, kafka.InvalidRequiredAcks, kafka.UnsupportedCompressionType,
		kafka.UnsupportedVersion, kafka.TransactionalIDAuthorizationFailed:
		return topicRefuse
	case kafka.OutOfOrderSequenceNumber, kafka.UnknownProducerId, kafka.InvalidProducerEpoch,
		kafka.InvalidProducerIDMapping, kafka.ProducerFenced:
		return staleProducer
	default:
		return maybeWritten
	}
}

// refusesTopic reports whether an error that came before a request was sent concerns the topic or the user, so that
// another try is useless.
func refusesTopic(err error) bool {
	var untrusted *tls.CertificateVerificationError
	return errors.Is(err, ErrUnauthorized) || errors.Is(err, kafka.InvalidTopic) || errors.As(err, &untrusted)
}

// badRecords returns the broker's error messages for those of the n records that it refused, by index. When the result
// is empty, the broker did not say which records it refused.
func badRecords(p produce.ResponsePartition, n int) map[int]string {
	bad := make(map[int]string, len(p.RecordErrors))
	for _, e := range p.RecordErrors {
		if i := int(e.BatchIndex); i >= 0 && i < n {
			bad[i] = e.BatchIndexErrorMessage
		}
	}
	return bad
}

// answerError returns the error of a produce answer, with the broker's own message.
func answerError(p produce.ResponsePartition) error {
	err := protocol.CodeError(p.ErrorCode)
	if err != nil && p.ErrorMessage != "" {
		return fmt.Errorf("%w: %s", err, p.ErrorMessage)
	}
	return err
}
