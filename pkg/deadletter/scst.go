package deadletter

import "github.com/dlq-manager/dlq-manager/pkg/deadletter/internal/headervalue"

// scst is Spring Cloud Stream's Kafka binder. Hand-written producers borrow its names, with numbers as text and
// without its exception class; those are left to the generic aliases. Everything is appended, stack traces included.
// x-retries is counted by applications that send records again in the way of its manual.
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
