package deadletter

// greyhound is Wix's library; its retry topics carry a position in the retry chain and nothing about the failure.
var greyhound = dialect{
	name:     "greyhound",
	anchors:  [][]string{{"GH_OriginalTopic"}},
	topic:    "GH_OriginalTopic",
	attempts: []string{"GH_RetryAttempt"},
}
