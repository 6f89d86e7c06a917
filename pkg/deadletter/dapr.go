package deadletter

// dapr says where a record was, not why it failed. Its headers stay on records, so other dialects go first.
var dapr = dialect{
	name:      "dapr",
	anchors:   [][]string{{"__topic", "__partition", "__offset"}},
	weak:      true,
	topic:     "__topic",
	partition: "__partition",
	offset:    "__offset",
	timestamp: "__timestamp",
}
