package deadletter

// kafkaflowRetry is the dialect of the durable retry in Farfetch's .NET library KafkaFlow. Its headers contain only the
// number of tries.
var kafkaflowRetry = dialect{
	name:     "kafkaflow-retry",
	anchors:  [][]string{{"Kafka-Flow-Retry-Durable-Item-Id"}, {"Kafka-Flow-Retry-Durable-Queue-Id"}},
	attempts: []string{"Kafka-Flow-Retry-Durable-Attempts-Count"},
}
