package deadletter

// k1s0's library writes the topic and the error and no other header. The name of
// the first is shared with others, whose companions it lacks.
var k1s0 = dialect{
	name:     "k1s0",
	anchors:  [][]string{{"original_topic", "error"}},
	accept:   func(h headers, key []byte) bool { return !hexkit.claims(h, key) && !karafkaLegacy.claims(h, key) },
	topic:    "original_topic",
	messages: []string{"error"},
}
