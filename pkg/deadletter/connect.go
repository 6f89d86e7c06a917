package deadletter

// connect is a Kafka Connect sink with errors.deadletterqueue.context.headers.enable. Any of its names is enough,
// since the prefix is reserved. The header of the error message can be null. The record's timestamp is the
// original's.
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
	keepsTime: true,
}
