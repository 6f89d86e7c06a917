package deadletter

// dapr says where a record was and never why it failed. Its headers leak into any
// record that once passed through it, so every other dialect goes before.
var dapr = dialect{
	name:      "dapr",
	anchors:   [][]string{{"__topic", "__partition", "__offset"}},
	weak:      true,
	topic:     "__topic",
	partition: "__partition",
	offset:    "__offset",
	timestamp: "__timestamp",
}
