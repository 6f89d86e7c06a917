package republisher

import (
	"errors"
	"fmt"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// This file is where Kafka's errors become ours; nothing else looks into them.

// delivery says what a produce result means for the attempt.
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

// verdict reads what the broker package knows of a record's fate.
func verdict(err error) (entity.Verdict, entity.ErrorClass) {
	var produce *broker.ProduceError
	if !errors.As(err, &produce) {
		return entity.InDoubt, doubtful(classOf(err)) // nobody vouches that it was not sent
	}
	class := entity.ErrorClass(produce.Class)
	switch produce.Fate {
	case broker.NotSent:
		if errors.Is(err, broker.ErrNotTried) {
			return entity.GivenBack, class // an attempt costs only who was tried
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

// doubtful is the class of a doubt that the target log will settle. UNKNOWN is kept for the doubts that it cannot.
func doubtful(class entity.ErrorClass) entity.ErrorClass {
	if class == entity.UnknownClass {
		return entity.NetworkTimeout
	}
	return class
}

func classOf(err error) entity.ErrorClass { return entity.ErrorClass(broker.Classify(err)) }

// targetError says why a partition may get no attempt: refused by the cluster for good, else unavailable.
func targetError(topic string, err error) error {
	switch {
	case errors.Is(err, broker.ErrUnknownTopic):
		return refuse(entity.UnknownTopic, "topic %q does not exist", topic)
	case errors.Is(err, broker.ErrUnauthorized):
		return refuse(entity.Unauthorized, "the cluster does not let us use topic %q", topic)
	default:
		return &unavailableError{fmt.Errorf("ask for topic %q: %w", topic, err)}
	}
}

// electing reports whether some partition has no leader at this very moment.
func electing(err error) bool {
	return errors.Is(err, broker.ErrNotLeader) || errors.Is(err, broker.ErrNoLeader)
}

func refuse(class entity.ErrorClass, format string, args ...any) error {
	return &entity.RefusedError{Class: class, Reason: fmt.Sprintf(format, args...)}
}

// noAnswer says why a request has no answer for a partition. It is never nil.
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

// valueError is for an attempt that sent nothing because its value cannot be read from its topic.
func valueError(partition int32, err error) entity.Delivery {
	d := entity.Delivery{Verdict: entity.Failed, Class: classOf(err), Err: err, Partition: partition, Offset: broker.OffsetUnknown}
	if gone(err) {
		d.Verdict, d.Class = entity.Rejected, entity.BadRecord
	}
	return d
}

// gone reports whether a record can no longer be read, now or later.
func gone(err error) bool {
	return errors.Is(err, broker.ErrGone) || errors.Is(err, broker.ErrOutOfRange) || errors.Is(err, broker.ErrUnknownTopic) ||
		errors.Is(err, errOtherValue) || errors.Is(err, errLaterRecord) || errors.Is(err, errNowhere)
}

var (
	// errOtherValue: the dead-letter topic has another record at that offset now.
	errOtherValue = errors.New("the dead-letter topic holds another value at this offset")

	// errNowhere: a pointer that no longer points anywhere.
	errNowhere = errors.New("nobody can tell where the dead letter's record stands")

	// errLaterRecord: nothing fails before it was written.
	errLaterRecord = errors.New("the record at this offset was written after the dead letter: the topic was deleted and created again")
)

// unreadable is the finding for an unreadable partition: for good if the cluster says so, else for now.
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

// Is makes the error's kind entity.ErrUnavailable.
func (e *unavailableError) Is(target error) bool { return target == entity.ErrUnavailable }
