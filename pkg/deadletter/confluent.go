package deadletter

// confluentRule is the DLQ action of schema-registry data contracts. In mode WRITE
// the record never reached its topic, so there is no position.
var confluentRule = dialect{
	name:     "confluent-rule",
	anchors:  [][]string{{"__rule.name"}},
	topic:    "__rule.topic",
	messages: []string{"__rule.exception"},
}
