package deadletter

import "github.com/dlq-manager/dlq-manager/pkg/deadletter/internal/headervalue"

// smallryeDLQ is the dialect of the dead-letter queue of SmallRye and Quarkus. Its producer writes the headers of the
// failure before those of the record.
var smallryeDLQ = dialect{
	name:        "smallrye-dlq",
	anchors:     [][]string{{"dead-letter-topic", "dead-letter-offset"}, {"dead-letter-topic", "dead-letter-reason"}},
	newestFirst: true,
	topic:       "dead-letter-topic",
	partition:   "dead-letter-partition",
	offset:      "dead-letter-offset",
	causes:      []string{"dead-letter-cause-class-name"},
	classes:     []string{"dead-letter-exception-class-name"},
	messages:    []string{"dead-letter-reason", "dead-letter-cause", "deserialization-failure-reason", "deserialization-failure-cause"},

	unwrap:        withoutReflection,
	refineFailure: smallryeCause("dead-letter-cause-class-name", "dead-letter-cause"),
}

// withoutReflection returns no class for the exception with which Java wraps that of a method called by reflection:
// outside of Quarkus this is the direct cause, and then the outer exception at least names the method.
func withoutReflection(f field, raw []byte) []byte {
	if f == fieldClass && string(raw) == "java.lang.reflect.InvocationTargetException" {
		return nil
	}
	return raw
}

// smallryeCause returns a hook for failures whose class was read from the header of the cause. The hook replaces the
// error message by that of the cause, because the header with the reason belongs to the outer exception.
func smallryeCause(classKey, messageKey string) func(headers, failure) failure {
	return func(h headers, f failure) failure {
		class := f.at[fieldClass]
		if class == 0 || h[class-1].Key != classKey {
			return f
		}
		if i := h.nthIndex(messageKey, 0); i >= 0 {
			if message := headervalue.Text(h[i].Value, MaxErrorMessage); message != "" {
				f.message, f.at[fieldMessage] = message, int32(i+1)
			}
		}
		return f
	}
}

// withFirst returns the number of deliveries: the number of retries plus one for the first delivery.
func withFirst(retries *int) *int {
	if retries == nil {
		return nil
	}
	n := *retries + 1
	return &n
}

// smallryeRetry is the dialect of SmallRye's delayed retry topics. A record whose retries are used up has only the
// headers of this dialect. At each failure (hop) a header names the topic from which the record was read, so the oldest
// of these headers names the original topic. The timestamp of the original record is written only once.
var smallryeRetry = dialect{
	name:        "smallrye-retry",
	anchors:     [][]string{{"delayed-retry-topic"}},
	newestFirst: true,
	topic:       "delayed-retry-topic",
	partition:   "delayed-retry-partition",
	offset:      "delayed-retry-offset",
	causes:      []string{"delayed-retry-cause-class-name"},
	classes:     []string{"delayed-retry-exception-class-name"},
	messages:    []string{"delayed-retry-reason", "delayed-retry-cause", "deserialization-failure-reason", "deserialization-failure-cause"},
	attempts:    []string{"delayed-retry-count"},
	unwrap:      withoutReflection,
	refineFailure: func(h headers, f failure) failure {
		f.Attempts = withFirst(f.Attempts)
		return smallryeCause("delayed-retry-cause-class-name", "delayed-retry-cause")(h, f)
	},
	refinePlace: func(h headers, p place) place {
		if i := h.lastIndex("delayed-retry-original-timestamp"); i >= 0 {
			p.timestamp, p.at[fieldTimestamp] = headervalue.Timestamp(h[i].Value), int32(i+1)
		}
		return p
	},
}

// smallryeDeserialization is the dialect of SmallRye's handler for bytes that cannot be deserialised. Its headers
// usually occur together with those of smallryeDLQ or smallryeRetry.
var smallryeDeserialization = dialect{
	name: "smallrye-deserialization",
	anchors: [][]string{
		{"deserialization-failure-reason"},
		{"deserialization-failure-topic"},
		{"deserialization-failure-deserializer"},
	},
	accept:      func(h headers, key []byte) bool { return !smallryeDLQ.claims(h, key) && !smallryeRetry.claims(h, key) },
	newestFirst: true,
	topic:       "deserialization-failure-topic",
	messages:    []string{"deserialization-failure-reason", "deserialization-failure-cause"},
}
