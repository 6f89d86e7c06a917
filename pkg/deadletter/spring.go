package deadletter

import "github.com/dlq-manager/dlq-manager/pkg/deadletter/internal/headervalue"

// springGroup is a header that both dialects of Spring write, so it identifies neither of them.
const springGroup = "kafka_dlt-original-consumer-group"

// springDLT is the dialect of DeadLetterPublishingRecoverer in Spring for Apache Kafka. At each failure it appends the
// headers of the position and replaces those of the exception. The class of the exception is nearly always Spring's
// wrapper; the cause is the actual failure.
var springDLT = dialect{
	name:      "spring-dlt",
	anchors:   [][]string{{"kafka_dlt-original-topic"}, {"kafka_dlt-exception-fqcn"}, {"kafka_dlt-key-exception-fqcn"}},
	topic:     "kafka_dlt-original-topic",
	partition: "kafka_dlt-original-partition",
	offset:    "kafka_dlt-original-offset",
	timestamp: "kafka_dlt-original-timestamp",
	causes:    []string{"kafka_dlt-exception-cause-fqcn"},
	classes:   []string{"kafka_dlt-exception-fqcn", "kafka_dlt-key-exception-fqcn"},
	messages:  []string{"kafka_dlt-exception-message", "kafka_dlt-key-exception-message"},
	stacks:    []string{"kafka_dlt-exception-stacktrace", "kafka_dlt-key-exception-stacktrace"},
	groups:    []string{springGroup},
	attempts:  []string{"kafka_deliveryAttempt"},

	rootInStack:  true,
	groupFollows: true,
}

// springRetryTopic is the dialect of Spring's @RetryableTopic. Its headers contain the position of the first failure,
// in the main topic.
var springRetryTopic = dialect{
	name:          "spring-retrytopic",
	anchors:       [][]string{{"kafka_original-topic"}, {retryTopicAttempts}, {"kafka_exception-fqcn"}, {"kafka_key-exception-fqcn"}},
	topic:         "kafka_original-topic",
	partition:     "kafka_original-partition",
	offset:        "kafka_original-offset",
	timestamp:     "kafka_original-timestamp",
	causes:        []string{"kafka_exception-cause-fqcn"},
	classes:       []string{"kafka_exception-fqcn", "kafka_key-exception-fqcn"},
	messages:      []string{"kafka_exception-message", "kafka_key-exception-message"},
	stacks:        []string{"kafka_exception-stacktrace", "kafka_key-exception-stacktrace"},
	groups:        []string{springGroup},
	rootInStack:   true,
	groupFollows:  true,
	refinePlace:   retryTopicTimestamp,
	refineFailure: retryTopicAttemptCount,
}

const (
	retryTopicAttempts    = "retry_topic-attempts"
	retryTopicFirstTime   = "retry_topic-original-timestamp"
	maxRetryTopicAttempts = 32767 // Spring's own maximum number of attempts
)

func retryTopicTimestamp(h headers, p place) place {
	i := h.nthIndex(retryTopicFirstTime, 0)
	if i < 0 || !p.timestamp.IsZero() {
		return p
	}
	if n, ok := headervalue.BigInteger(h[i].Value); ok {
		p.timestamp, p.at[fieldTimestamp] = headervalue.Epoch(n), int32(i+1)
	}
	return p
}

// retryTopicAttemptCount reads the number of the next attempt from the header, and so reports one attempt less. A
// header value of a single byte is always a binary number, because old versions wrote the number as one byte, in which
// 0x31 means 49.
func retryTopicAttemptCount(h headers, f failure) failure {
	i := h.lastIndex(retryTopicAttempts)
	if i < 0 {
		return f
	}
	value := h[i].Value
	n, ok := headervalue.Number(value)
	if len(value) == 1 {
		n, ok = int64(value[0]), true
	}
	f.Attempts, f.at[fieldAttempts] = headervalue.Count(n-1, ok, maxRetryTopicAttempts), int32(i+1)
	return f
}
