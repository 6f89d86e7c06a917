package deadletter

import (
	"strings"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// silverback is the .NET library's move policy. Its reason is "<type> in <source>":
// the class is in there, a message is not.
var silverback = dialect{
	name: "silverback",
	anchors: [][]string{
		{"x-source-topic", "x-failure-reason"},
		{"x-source-topic", "x-source-offset"},
	},
	topic:     "x-source-topic",
	partition: "x-source-partition",
	offset:    "x-source-offset",
	timestamp: "x-source-timestamp",
	messages:  []string{"x-failure-reason"},
	groups:    []string{"x-source-consumer-group-id"},
	attempts:  []string{"x-failed-attempts"},
	refineFailure: func(_ headers, f entity.Failure, message string) (entity.Failure, string) {
		if class, _, ok := strings.Cut(message, " in "); ok {
			f.Class = cleanText([]byte(class), MaxErrorClass)
		}
		return f, message
	},
}
