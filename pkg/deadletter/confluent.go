package deadletter

// confluentRule is the dialect of the DLQ action in Confluent's data contracts. In mode WRITE, the rule fails before a
// record is written, so the dead letter names no position.
var confluentRule = dialect{
	name:     "confluent-rule",
	anchors:  [][]string{{"__rule.name"}},
	topic:    "__rule.topic",
	messages: []string{"__rule.exception"},
}
