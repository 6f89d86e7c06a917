package deadletter

// k1s0 is the dialect of k1s0's library, which writes only the topic and the error. Other dialects use the same header
// for the topic, but together with headers of their own. Apart from topic and error, the headers below are those that
// hand-written producers use together with the header of the topic.
var k1s0 = dialect{
	name:     "k1s0",
	anchors:  [][]string{{"original_topic", "error"}},
	accept:   func(h headers, key []byte) bool { return !hexkit.claims(h, key) && !karafkaLegacy.claims(h, key) },
	topic:    "original_topic",
	classes:  []string{"error_class"},
	messages: []string{"error"},
	stacks:   []string{"stack_trace"},
	groups:   []string{"consumer_group"},
}
