package deadletter

import (
	"bytes"

	"github.com/dlq-manager/dlq-manager/pkg/deadletter/internal/headervalue"
)

// karafka is the dialect of Karafka Pro from version 2.5 on. The open-source edition writes no headers.
var karafka = dialect{
	name:      "karafka",
	anchors:   [][]string{{"source_topic", "source_attempts"}},
	topic:     "source_topic",
	partition: "source_partition",
	offset:    "source_offset",
	groups:    []string{"source_consumer_group"},
	attempts:  []string{"source_attempts"},
}

// karafkaLegacy is the dialect of Karafka Pro before version 2.5, which replaces the record's key by the number of the
// partition; see ReplayKey. Its headers have plain names that hand-written producers use too. So the dialect also reads
// headers that only hand-written producers add, such as the one with the error message.
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

// karafkaHyphenated is the dialect of the first versions of Karafka Pro. The names of its headers are common, so the
// dialect is recognised only when the key is equal to the number of the partition.
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

// karafkaKeys contains, by the name of the dialect, the header in which the producer saves the key of the record that
// failed.
var karafkaKeys = map[string]string{
	karafkaLegacy.name:     "original_key",
	karafkaHyphenated.name: "original-key",
}
