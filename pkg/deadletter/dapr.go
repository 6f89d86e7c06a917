package deadletter

// dapr is the dialect of Dapr, which writes a record's position but not the reason of its failure. When another
// producer dead-letters the record later, Dapr's headers are still in it, so all other dialects are tried first.
var dapr = dialect{
	name:      "dapr",
	anchors:   [][]string{{"__topic", "__partition", "__offset"}},
	weak:      true,
	topic:     "__topic",
	partition: "__partition",
	offset:    "__offset",
	timestamp: "__timestamp",
}
