package deadletter

// greyhound is Wix's library; a record in its retry topics says how far it has come in the chain of retries, and
// nothing about the failure.
var greyhound = dialect{
	name:     "greyhound",
	anchors:  [][]string{{"GH_OriginalTopic"}},
	topic:    "GH_OriginalTopic",
	attempts: []string{"GH_RetryAttempt"},
}
