package traces

import (
	"strconv"

	"go.opentelemetry.io/otel/attribute"
)

// Attributes of spans about records in Kafka, named as in OpenTelemetry's conventions for messaging.
const (
	System        = attribute.Key("messaging.system")
	Operation     = attribute.Key("messaging.operation.name")
	OperationType = attribute.Key("messaging.operation.type")
	Topic         = attribute.Key("messaging.destination.name")
	PartitionID   = attribute.Key("messaging.destination.partition.id")
	Offset        = attribute.Key("messaging.kafka.offset")
	ConsumerGroup = attribute.Key("messaging.consumer.group.name")
	BatchMessages = attribute.Key("messaging.batch.message_count")
	ErrorType     = attribute.Key("error.type")
	kafka         = "kafka"
)

// Attributes specific to dlq-manager.
const (
	MessageID = attribute.Key("dlq.message_id")
	// AttemptID is the value of the record's header dlq-redrive-id.
	AttemptID = attribute.Key("dlq.attempt_id")
	RedriveID = attribute.Key("dlq.redrive_id")
	// RedriveBatch is the batch's number within its redrive, from 0.
	RedriveBatch = attribute.Key("dlq.redrive.batch")
	// Messages is the number of messages that the work of a span processes.
	Messages = attribute.Key("dlq.messages")
	// Failed is the number of a span's messages whose processing failed; it is not set when none failed.
	Failed = attribute.Key("dlq.messages.failed")
	// RequestTraceID is the id of the trace of the request that created a redrive.
	RequestTraceID = attribute.Key("dlq.request.trace_id")
)

// Kafka returns the attributes that every span about records has.
func Kafka(operation string) []attribute.KeyValue {
	return []attribute.KeyValue{KafkaSystem(), Operation.String(operation), OperationType.String(operation)}
}

// KafkaSystem returns the attribute that every span about Kafka has.
func KafkaSystem() attribute.KeyValue { return System.String(kafka) }

// Partition returns the attribute with the number of a partition, as text, as the conventions require.
func Partition(n int32) attribute.KeyValue {
	return PartitionID.String(strconv.Itoa(int(n)))
}
