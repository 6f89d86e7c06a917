package deadletter

import "github.com/dlq-manager/dlq-manager/pkg/deadletter/internal/headervalue"

// scst is the dialect of Spring Cloud Stream's binder for Kafka. Hand-written producers use headers with the same
// names, but write numbers as text and no exception class; their headers are read by the generic dialect. The binder
// appends all headers at each failure, including stack traces. Applications that send records again, as the manual of
// the binder recommends, count their tries in x-retries.
var scst = dialect{
	name:      "scst",
	anchors:   [][]string{{"x-original-topic"}},
	accept:    isBinder,
	shared:    true,
	topic:     "x-original-topic",
	partition: "x-original-partition",
	offset:    "x-original-offset",
	timestamp: "x-original-timestamp",
	classes:   []string{"x-exception-fqcn"},
	messages:  []string{"x-exception-message"},
	stacks:    []string{"x-exception-stacktrace"},
	attempts:  []string{"x-retries"},
}

func isBinder(h headers, _ []byte) bool {
	return h.has("x-exception-fqcn") ||
		binaryNumber(h.last("x-original-partition"), 4) ||
		binaryNumber(h.last("x-original-offset"), 8)
}

func binaryNumber(b []byte, size int) bool {
	return len(b) == size && !headervalue.Decimal(b) && !headervalue.Printable(b)
}
