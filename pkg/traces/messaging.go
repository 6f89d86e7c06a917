package traces

import (
	"strconv"

	"go.opentelemetry.io/otel/attribute"
)

// Attributes of spans about records in Kafka, named as OpenTelemetry's conventions
// for messaging name them.
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

// Attributes of our own.
const (
	MessageID = attribute.Key("dlq.message_id")
	// AttemptID is what the header dlq-redrive-id of the record says.
	AttemptID = attribute.Key("dlq.attempt_id")
	RedriveID = attribute.Key("dlq.redrive_id")
	// RedriveBatch is the batch's number within its redrive, from 0.
	RedriveBatch = attribute.Key("dlq.redrive.batch")
	// Messages is how many messages the work of a span was about.
	Messages = attribute.Key("dlq.messages")
	// Failed is how many of them failed, where some did.
	Failed = attribute.Key("dlq.messages.failed")
	// RequestTraceID is the trace of the request that asked for a redrive.
	RequestTraceID = attribute.Key("dlq.request.trace_id")
)

// Kafka are the attributes that every span about records has.
func Kafka(operation string) []attribute.KeyValue {
	return []attribute.KeyValue{KafkaSystem(), Operation.String(operation), OperationType.String(operation)}
}

// KafkaSystem is the attribute that every span about Kafka has.
func KafkaSystem() attribute.KeyValue { return System.String(kafka) }

// Partition is a partition's number, which the conventions want as text.
func Partition(n int32) attribute.KeyValue {
	return PartitionID.String(strconv.Itoa(int(n)))
}
