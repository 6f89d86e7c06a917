package deadletter

// massTransit is the dialect of MassTransit, which writes headers to queues of other kinds of brokers. Bridges copy
// these headers to Kafka, some as JSON strings. The address of the endpoint that failed is a URI of the other broker,
// not a topic.
var massTransit = dialect{
	name:     "masstransit",
	anchors:  [][]string{{"MT-Fault-InputAddress"}, {"MT-Fault-ExceptionType"}},
	classes:  []string{"MT-Fault-ExceptionType"},
	messages: []string{"MT-Fault-Message"},
	stacks:   []string{"MT-Fault-StackTrace"},
	attempts: []string{"MT-Fault-RetryCount"},
	unwrap:   jsonString,
}
