package deadletter

// massTransit writes these headers on queues; bridges carry them into Kafka, some as JSON strings. The address of the
// failed endpoint is a URI of that other kind of broker, not a topic.
var massTransit = dialect{
	name:     "masstransit",
	anchors:  [][]string{{"MT-Fault-InputAddress"}, {"MT-Fault-ExceptionType"}},
	classes:  []string{"MT-Fault-ExceptionType"},
	messages: []string{"MT-Fault-Message"},
	stacks:   []string{"MT-Fault-StackTrace"},
	attempts: []string{"MT-Fault-RetryCount"},
	unwrap:   jsonString,
}
