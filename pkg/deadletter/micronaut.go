package deadletter

// micronaut is the dialect of Micronaut Kafka from version 5.8 on. When Micronaut sends a record again, it keeps the
// headers with the position and the timestamp, and replaces its other headers.
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
