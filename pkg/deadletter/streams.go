package deadletter

import "github.com/dlq-manager/dlq-manager/pkg/entity"

// streams is Kafka Streams' dead-letter queue. Without a source the topic is null, partition and offset -1.
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

// HasNoSource reports whether the failure in Kafka Streams has no source record: a punctuator failed, and there is no
// record to replay. The application's own handler may give such a dead letter a key or a value, which can be sent
// once an operator has set the topic.
func HasNoSource(rec entity.Record) bool {
	return rec.Key == nil && rec.KeyOmitted == 0 && rec.Value == nil && rec.State == entity.ValueStored && saysNoSource(rec.Headers)
}

// saysNoSource reports whether the latest failure has no source record: no topic, and position -1.
func saysNoSource(h headers) bool {
	topic, partition, offset := h.lastIndex(streams.topic), h.lastIndex(streams.partition), h.lastIndex(streams.offset)
	return topic >= 0 && len(h[topic].Value) == 0 &&
		partition >= 0 && string(h[partition].Value) == "-1" && offset >= 0 && string(h[offset].Value) == "-1"
}
