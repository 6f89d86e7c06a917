package deadletter

// cronsumer is the dialect of Trendyol's libraries kafka-cronsumer and kafka-konsumer. These libraries write only the
// number of retries and the time of the last retry.
var cronsumer = dialect{
	name:     "trendyol-cronsumer",
	anchors:  [][]string{{"x-retry-count", "x-produce-time"}, {"x-retry-count", "x-retry-attempt-count"}},
	attempts: []string{"x-retry-count"},
}
