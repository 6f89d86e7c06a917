package republisher

import (
	"errors"
	"fmt"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// This file is the only place that translates Kafka's errors.

// delivery translates a produce result into the result of the attempt.
func delivery(partition int32, result broker.RecordResult) entity.Delivery {
	d := entity.Delivery{Verdict: entity.Acknowledged, Partition: partition, Offset: result.Offset}
	if result.Err == nil {
		return d
	}
	d.Offset = broker.OffsetUnknown
	d.Err = result.Err
	d.Verdict, d.Class = verdict(result.Err)
	return d
}

// verdict translates the broker package's error for a record into a verdict and an error class.
func verdict(err error) (entity.Verdict, entity.ErrorClass) {
	var produce *broker.ProduceError
	if !errors.As(err, &produce) {
		return entity.InDoubt, doubtful(classOf(err)) // the error does not tell whether the record was written
	}
	class := entity.ErrorClass(produce.Class)
	switch produce.Fate {
	case broker.NotSent:
		switch {
		case errors.Is(err, broker.ErrNotTried) && produce.Class == broker.ClassRateLimited:
			return entity.GivenBack, "" // a pause that the broker asked for is no failure: the message waits
		case errors.Is(err, broker.ErrNotTried):
			return entity.GivenBack, class // the producer did not try to send this record, so the attempt does not count
		}
		return entity.Failed, class
	case broker.RecordRejected:
		return entity.Rejected, entity.BadRecord
	case broker.TopicRefused:
		return entity.Refused, class
	default:
		return entity.InDoubt, doubtful(class)
	}
}

// doubtful returns the class of an attempt in doubt. The class UNKNOWN is reserved for attempts that a read of the
// target log cannot settle.
func doubtful(class entity.ErrorClass) entity.ErrorClass {
	if class == entity.UnknownClass {
		return entity.NetworkTimeout
	}
	return class
}

func classOf(err error) entity.ErrorClass { return entity.ErrorClass(broker.Classify(err)) }

// targetError returns why no attempt may start that sends to a topic. If the cluster's error says that the topic does
// not exist or may not be used, it is a refusal; otherwise its kind is entity.ErrUnavailable.
func targetError(topic string, err error) error {
	switch {
	case errors.Is(err, broker.ErrUnknownTopic):
		return &entity.RefusedError{Class: entity.UnknownTopic, Reason: fmt.Sprintf("topic %q does not exist", topic), Missing: true}
	case errors.Is(err, broker.ErrUnauthorized):
		return refuse(entity.Unauthorized, "a permission is missing in Kafka: dlq-manager may not describe topic %q", topic)
	default:
		return &unavailableError{fmt.Errorf("ask for topic %q: %w", topic, err)}
	}
}

// sourceError returns why no attempt may start whose value must be read from a topic. A refusal concerns the value only:
// other messages for the same target may be sent.
func sourceError(topic string, err error) error {
	err = targetError(topic, err)
	var refused *entity.RefusedError
	if errors.As(err, &refused) {
		refused.OfValue, refused.Missing = true, false
	}
	return err
}

// electing reports whether the error means that the partition has no leader, or another leader than the client knows.
func electing(err error) bool {
	return errors.Is(err, broker.ErrNotLeader) || errors.Is(err, broker.ErrNoLeader)
}

func refuse(class entity.ErrorClass, format string, args ...any) error {
	return &entity.RefusedError{Class: class, Reason: fmt.Sprintf(format, args...)}
}

// noAnswer returns the reason why the answer to a request contains nothing about a partition. The error is never nil.
func noAnswer(tp broker.TopicPartition, err error) error {
	var byPartition broker.PartitionErrors
	if errors.As(err, &byPartition) {
		err = byPartition[tp]
	}
	if err == nil {
		return fmt.Errorf("%s: %w", tp, broker.ErrUnavailable)
	}
	return err
}

// valueError returns the delivery of an attempt that sent nothing because its value cannot be read from its topic.
func valueError(partition int32, err error) entity.Delivery {
	d := entity.Delivery{Verdict: entity.Failed, Class: classOf(err), Err: err, Partition: partition, Offset: broker.OffsetUnknown}
	switch {
	case gone(err):
		d.Verdict, d.Class = entity.Rejected, entity.BadRecord
	case errors.Is(err, broker.ErrUnauthorized): // the message keeps the attempt, as when the target may not be written
		d.Verdict, d.OfValue = entity.Refused, true
	}
	return d
}

// gone reports whether the error says that the record can never be read again.
func gone(err error) bool {
	return errors.Is(err, broker.ErrGone) || errors.Is(err, broker.ErrOutOfRange) || errors.Is(err, broker.ErrUnknownTopic) ||
		errors.Is(err, errOtherValue) || errors.Is(err, errLaterRecord) || errors.Is(err, errNowhere)
}

var (
	// errOtherValue: the record at the offset of the dead letter has another value than the dead letter that was
	// stored.
	errOtherValue = errors.New("the dead-letter topic holds another value at this offset")

	// errNowhere: the pointer does not name the partition and offset of its record.
	errNowhere = errors.New("the position of the dead letter's record is not known")

	// errLaterRecord: the record was written later than the dead letter, so it is another record than the one that
	// failed.
	errLaterRecord = errors.New("the record at this offset was written after the dead letter: the topic was deleted and created again")
)

// unreadable returns the result of FindMany for a claim whose partition cannot be read. If the cluster's error is
// permanent, the class is UNKNOWN; otherwise the claim is tried again later.
func unreadable(c entity.Claim, err error) entity.Delivery {
	d := entity.Delivery{Verdict: entity.InDoubt, Class: doubtful(classOf(err)), Err: err, Partition: c.Partition, Offset: broker.OffsetUnknown}
	if errors.Is(err, broker.ErrUnknownTopic) || errors.Is(err, broker.ErrUnauthorized) {
		d.Class = entity.UnknownClass
	}
	return d
}

// unavailableError gives an error the kind entity.ErrUnavailable.
type unavailableError struct{ error }

func (e *unavailableError) Unwrap() error { return e.error }

// Away names what cannot be reached, for clients.
func (e *unavailableError) Away() string { return "Kafka" }

// Is makes the error's kind entity.ErrUnavailable.
func (e *unavailableError) Is(target error) bool { return target == entity.ErrUnavailable }
