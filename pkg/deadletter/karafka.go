package deadletter

import (
	"bytes"

	"github.com/dlq-manager/dlq-manager/pkg/deadletter/internal/headervalue"
)

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

// karafkaLegacy is Karafka Pro before 2.5. It replaced the record's key by the partition's number; see ReplayKey. Its
// names are plain words, which hand-written producers use too. The dialect therefore also reads the headers that such
// producers add; the message is read from a hand-written header.
var karafkaLegacy = dialect{
	name: "karafka-legacy",
	anchors: [][]string{
		{"original_topic", "original_attempts"},
		{"original_topic", "original_consumer_group"},
		{"original_topic", "original_offset"},
	},
	accept:    func(h headers, key []byte) bool { return !hexkit.claims(h, key) },
	topic:     "original_topic",
	partition: "original_partition",
	offset:    "original_offset",
	classes:   []string{"error_class"},
	stacks:    []string{"stack_trace"},
	groups:    []string{"original_consumer_group", "consumer_group"},
	attempts:  []string{"original_attempts"},
}

// karafkaHyphenated is the first Karafka Pro. Its header names are common, so only a key equal to the partition
// proves the dialect.
var karafkaHyphenated = dialect{
	name:      "karafka-hyphenated",
	anchors:   [][]string{{"original-topic", "original-partition", "original-offset"}},
	accept:    keyIsPartition,
	topic:     "original-topic",
	partition: "original-partition",
	offset:    "original-offset",
	groups:    []string{"original-consumer-group"},
	attempts:  []string{"original-attempts"},
}

func keyIsPartition(h headers, key []byte) bool {
	return headervalue.Decimal(key) && bytes.Equal(key, h.last("original-partition"))
}

// karafkaKeys are the headers that hold the record's own key.
var karafkaKeys = map[string]string{
	karafkaLegacy.name:     "original_key",
	karafkaHyphenated.name: "original-key",
}
