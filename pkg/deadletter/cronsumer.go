package deadletter

// cronsumer is Trendyol's kafka-cronsumer and kafka-konsumer. It counts retries and
// says neither where nor why. x-produce-time is that of the last retry.
var cronsumer = dialect{
	name: "trendyol-cronsumer",
	anchors: [][]string{
		{"x-retry-count", "x-produce-time"},
		{"x-retry-count", "x-retry-attempt-count"},
	},
	attempts: []string{"x-retry-count"},
}
