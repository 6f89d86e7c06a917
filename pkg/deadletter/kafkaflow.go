package deadletter

// kafkaflowRetry is the durable retry of Farfetch's .NET library. The record has only the number of tries.
var kafkaflowRetry = dialect{
	name:     "kafkaflow-retry",
	anchors:  [][]string{{"Kafka-Flow-Retry-Durable-Item-Id"}, {"Kafka-Flow-Retry-Durable-Queue-Id"}},
	attempts: []string{"Kafka-Flow-Retry-Durable-Attempts-Count"},
}
