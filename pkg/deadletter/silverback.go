package deadletter

import (
	"strings"

	"github.com/dlq-manager/dlq-manager/pkg/deadletter/internal/headervalue"
)

// silverback is the dialect of the move policy of the .NET library Silverback. Its reason "<type> in <source>" contains
// the class of the exception, but not its message.
var silverback = dialect{
	name:      "silverback",
	anchors:   [][]string{{"x-source-topic", "x-failure-reason"}, {"x-source-topic", "x-source-offset"}},
	topic:     "x-source-topic",
	partition: "x-source-partition",
	offset:    "x-source-offset",
	timestamp: "x-source-timestamp",
	messages:  []string{"x-failure-reason"},
	groups:    []string{"x-source-consumer-group-id"},
	attempts:  []string{"x-failed-attempts"},
	refineFailure: func(_ headers, f failure) failure {
		if class, _, ok := strings.Cut(f.message, " in "); ok {
			f.Class, f.at[fieldClass] = headervalue.Text([]byte(class), MaxErrorClass), f.at[fieldMessage]
		}
		return f
	},
}
