package deadletter

// confluentRule is the DLQ action of Confluent's data contracts. In mode WRITE the rule fails before a record is
// written, so there is no position.
var confluentRule = dialect{
	name:     "confluent-rule",
	anchors:  [][]string{{"__rule.name"}},
	topic:    "__rule.topic",
	messages: []string{"__rule.exception"},
}
