package deadletter

// micronaut is Micronaut Kafka from 5.8 on. The position is kept through its retry
// topics, everything else is replaced; the record's timestamp is the original's.
var micronaut = dialect{
	name:      "micronaut",
	anchors:   [][]string{{"micronaut-kafka-original-topic"}},
	topic:     "micronaut-kafka-original-topic",
	partition: "micronaut-kafka-original-partition",
	offset:    "micronaut-kafka-original-offset",
	classes:   []string{"micronaut-kafka-exception-class"},
	messages:  []string{"micronaut-kafka-exception-message"},
	attempts:  []string{"micronaut-kafka-retry-attempt"},
	keepsTime: true,
}
