package deadletter

// dapr writes a record's position, not the reason of its failure. Records keep its headers when another producer
// dead-letters them later, so all other dialects are tried first.
var dapr = dialect{
	name:      "dapr",
	anchors:   [][]string{{"__topic", "__partition", "__offset"}},
	weak:      true,
	topic:     "__topic",
	partition: "__partition",
	offset:    "__offset",
	timestamp: "__timestamp",
}
