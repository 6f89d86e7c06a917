package deadletter

// confluentRule is the DLQ action of data contracts. In mode WRITE there was no record, so no position.
var confluentRule = dialect{
	name:     "confluent-rule",
	anchors:  [][]string{{"__rule.name"}},
	topic:    "__rule.topic",
	messages: []string{"__rule.exception"},
}
