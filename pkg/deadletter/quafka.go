package deadletter

import (
	"strings"

	"github.com/dlq-manager/dlq-manager/pkg/deadletter/internal/headervalue"
)

// quafka is the dialect of Trendyol's Kotlin library quafka. The header X-Exception contains the stack trace, whose
// first line is "<class>: <message>".
var quafka = dialect{
	name:          "quafka",
	anchors:       [][]string{{"X-OriginalTopic"}},
	topic:         "X-OriginalTopic",
	partition:     "X-OriginalPartition",
	offset:        "X-OriginalOffset",
	timestamp:     "X-OriginalPublishedAt",
	messages:      []string{"X-ExceptionDetail"},
	stacks:        []string{"X-Exception"},
	attempts:      []string{"X-OverallRetryAttempts", "X-OverallRetryAttempt", "X-RetryAttempts", "X-RetryAttempt"},
	refineFailure: quafkaException,
}

func quafkaException(_ headers, f failure) failure {
	line, _, _ := strings.Cut(f.StackTrace, "\n")
	class, detail, _ := strings.Cut(strings.TrimSpace(line), ":")
	if i := strings.IndexAny(class, " \t"); i >= 0 {
		class = class[:i]
	}
	f.Class, f.at[fieldClass] = headervalue.Text([]byte(class), MaxErrorClass), f.at[fieldStack]
	if f.message == "" {
		f.message = headervalue.Text([]byte(strings.TrimSpace(detail)), MaxErrorMessage)
		f.at[fieldMessage] = f.at[fieldStack]
	}
	return f
}
