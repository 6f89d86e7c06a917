package deadletter

// karafka is Karafka Pro from 2.5 on. The open-source edition writes no headers.
var karafka = dialect{
	name:      "karafka",
	anchors:   [][]string{{"source_topic", "source_attempts"}},
	topic:     "source_topic",
	partition: "source_partition",
	offset:    "source_offset",
	groups:    []string{"source_consumer_group"},
	attempts:  []string{"source_attempts"},
}

// karafkaLegacy is Karafka Pro before 2.5. It replaced the record's key by the
// partition's number; see ReplayKey.
var karafkaLegacy = dialect{
	name: "karafka-legacy",
	anchors: [][]string{
		{"original_topic", "original_attempts"},
		{"original_topic", "original_consumer_group"},
		{"original_topic", "original_offset"},
	},
	accept:    func(h headers) bool { return !hexkit.claims(h) },
	topic:     "original_topic",
	partition: "original_partition",
	offset:    "original_offset",
	groups:    []string{"original_consumer_group"},
	attempts:  []string{"original_attempts"},
}

const karafkaLegacyKey = "original_key"
