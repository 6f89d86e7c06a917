package deadletter

// connect is a Kafka Connect sink with errors.deadletterqueue.context.headers.enable. Any of its header names
// identifies it, because their prefix is reserved. The header of the error message can be null. The dead letter has the
// timestamp of the original record.
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
