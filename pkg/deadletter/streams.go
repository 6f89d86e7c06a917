package deadletter

// streams is Kafka Streams' own dead-letter queue. Without a source record the
// topic is null and partition and offset are -1.
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
