package deadletter

// micronaut is Micronaut Kafka from 5.8 on. Retries keep position and timestamp, and replace the rest.
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
