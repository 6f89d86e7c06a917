package deadletter

// kafkaflowRetry is the durable retry of Farfetch's .NET library. It keeps the
// failure in a database and tells the record only how often it was tried.
var kafkaflowRetry = dialect{
	name:     "kafkaflow-retry",
	anchors:  [][]string{{"Kafka-Flow-Retry-Durable-Item-Id"}, {"Kafka-Flow-Retry-Durable-Queue-Id"}},
	attempts: []string{"Kafka-Flow-Retry-Durable-Attempts-Count"},
}
