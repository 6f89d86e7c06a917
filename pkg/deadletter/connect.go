package deadletter

// connect is the dialect of Kafka Connect sinks with the setting errors.deadletterqueue.context.headers.enable. Any of
// its headers identifies it, because the prefix of their names is reserved. The header with the error message may be
// null. The dead letter keeps the timestamp of the original record. No header names the consumer group; it is the name
// of the connector after "connect-", unless the connector's settings change it.
var connect = dialect{
	name: "connect",
	anchors: [][]string{
		{"__connect.errors.topic"},
		{"__connect.errors.partition"},
		{"__connect.errors.offset"},
		{"__connect.errors.connector.name"},
		{"__connect.errors.task.id"},
		{"__connect.errors.stage"},
		{"__connect.errors.class.name"},
		{"__connect.errors.exception.class.name"},
		{"__connect.errors.exception.message"},
		{"__connect.errors.exception.stacktrace"},
	},
	topic:     "__connect.errors.topic",
	partition: "__connect.errors.partition",
	offset:    "__connect.errors.offset",
	classes:   []string{"__connect.errors.exception.class.name"},
	messages:  []string{"__connect.errors.exception.message"},
	stacks:    []string{"__connect.errors.exception.stacktrace"},
	groups:    []string{"__connect.errors.connector.name"},
	keepsTime: true,
	unwrap: func(f field, raw []byte) []byte {
		if f == fieldGroup {
			return append([]byte("connect-"), raw...)
		}
		return raw
	},
}
