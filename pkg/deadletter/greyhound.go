package deadletter

// greyhound is the dialect of Wix's library Greyhound. A record in its retry topics says at which retry it is, and
// nothing about the failure.
var greyhound = dialect{
	name:     "greyhound",
	anchors:  [][]string{{"GH_OriginalTopic"}},
	topic:    "GH_OriginalTopic",
	attempts: []string{"GH_RetryAttempt"},
}
