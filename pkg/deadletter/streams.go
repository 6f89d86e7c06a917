package deadletter

import "github.com/dlq-manager/dlq-manager/pkg/entity"

// streams is the dialect of Kafka Streams' dead-letter queue. When a failure has no source record, the topic is null,
// and partition and offset are -1.
var streams = dialect{
	name:      "streams",
	anchors:   [][]string{{"__streams.errors.exception"}},
	topic:     "__streams.errors.topic",
	partition: "__streams.errors.partition",
	offset:    "__streams.errors.offset",
	classes:   []string{"__streams.errors.exception"},
	messages:  []string{"__streams.errors.message"},
	stacks:    []string{"__streams.errors.stacktrace"},
	keepsTime: true,
}

// HasNoSource reports whether a failure in Kafka Streams has no source record, so that there is nothing to replay: a
// punctuator failed, for example. The application's own handler may still give the dead letter a key or a value. For a
// dead letter with a key or a value HasNoSource returns false; it can be sent once an operator has set the original
// topic.
func HasNoSource(rec entity.Record) bool {
	return rec.Key == nil && rec.KeyOmitted == 0 && rec.Value == nil && rec.State == entity.ValueStored && saysNoSource(rec.Headers)
}

// saysNoSource reports whether the headers of the latest failure name no source record: an empty topic, and the
// position -1.
func saysNoSource(h headers) bool {
	topic, partition, offset := h.lastIndex(streams.topic), h.lastIndex(streams.partition), h.lastIndex(streams.offset)
	return topic >= 0 && len(h[topic].Value) == 0 &&
		partition >= 0 && string(h[partition].Value) == "-1" && offset >= 0 && string(h[offset].Value) == "-1"
}
