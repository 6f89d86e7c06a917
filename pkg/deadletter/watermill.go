package deadletter

// watermill is the dialect of the poison queue of the Go library Watermill. The first version wrote only the reason.
var watermill = dialect{
	name:     "watermill",
	anchors:  [][]string{{"reason_poisoned"}},
	topic:    "topic_poisoned",
	messages: []string{"reason_poisoned"},
}
