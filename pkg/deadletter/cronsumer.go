package deadletter

// cronsumer is Trendyol's kafka-cronsumer and kafka-konsumer: only retries and the last one's time.
var cronsumer = dialect{
	name:     "trendyol-cronsumer",
	anchors:  [][]string{{"x-retry-count", "x-produce-time"}, {"x-retry-count", "x-retry-attempt-count"}},
	attempts: []string{"x-retry-count"},
}
