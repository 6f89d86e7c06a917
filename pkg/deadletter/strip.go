package deadletter

import (
	"maps"
	"strings"

	"github.com/dlq-manager/dlq-manager/pkg/deadletter/internal/headervalue"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Strip returns the headers that a replay keeps, in their order and with repeated ones. It removes the headers of
// dead-letter producers: a consumer that finds them could treat the replay as a failure, continue an old counter, or
// use a wrong offset. It also removes the dlq- headers, because the replay sets them again. A header that an
// application might use itself is removed only when the given dialect writes it. Everything else stays: trace context,
// content type, correlation ids and all unknown headers. The result is a new list that shares the values with the
// parameter headers; it is nil when no header is kept. Strip does not remove the headers of configured dialects; see
// Decoder.Strip.
func Strip(dialect string, headers []entity.Header) []entity.Header {
	return strip(strippedFor[dialect], headers)
}

// Strip does the same as the function Strip for a replay to the topic target, and also removes the headers of
// configured dialects. A dead letter that is replayed to the retry topic of its service keeps the header by which the
// service recognises the type of the record.
func (d *Decoder) Strip(dialect, target string, headers []entity.Header) []entity.Header {
	own, ok := d.strips[dialect]
	if !ok {
		own = strippedFor[dialect]
	}
	if dialect == hexkit.name && hexkitRetry(target) {
		own.names = maps.Clone(own.names)
		delete(own.names, hexkitTopic)
	}
	return strip(own, headers)
}

func strip(own ownNames, list headers) []entity.Header {
	var kept []entity.Header
	saved := -1
	if own.saved != "" {
		saved = list.lastIndex(own.saved)
	}
	for i, h := range list {
		if i == saved && len(h.Value) > 0 {
			h.Key = own.restored
		} else if stripped(own, h.Key) {
			continue
		}
		if kept == nil {
			kept = make([]entity.Header, 0, len(list))
		}
		kept = append(kept, h)
	}
	return kept
}

// ReplayKey returns the key that a replay sends, which is the key of the record that failed. Some producers give the
// dead letter another key, and save the first one in a header or inside the new key; then ReplayKey returns the saved
// key. The caller must not modify the result.
func ReplayKey(dialect string, rec entity.Record) []byte {
	if dialect == uberDLQ.name {
		if k, ok := headervalue.ParseUberKey(rec.Key); ok {
			return k.Key
		}
		return rec.Key
	}
	h := headers(rec.Headers)
	if name, ok := karafkaKeys[dialect]; ok {
		if i := h.lastIndex(name); i >= 0 {
			return h[i].Value
		}
	}
	return rec.Key
}

func stripped(own ownNames, key string) bool {
	return ours(key) || strippedAlways[key] || hasPrefix(key, strippedPrefixes[:]) ||
		own.names[key] || hasPrefix(key, own.prefixes)
}

func hasPrefix(key string, prefixes []string) bool {
	for _, prefix := range prefixes {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}

// strippedPrefixes are prefixes of headers that only dead-letter producers use. kafka_ and NServiceBus. are not in the
// list, because applications use them too.
var strippedPrefixes = [...]string{
	"kafka_dlt-",
	"retry_topic-",
	"__connect.errors.",
	"__streams.errors.",
	"__dlq.errors.",
	"__rule.",
	"delayed-retry-",
	"deserialization-failure-",
	"micronaut-kafka-",
	"Kafka-Flow-Retry-Durable-",
	"MT-Fault-",
	"NServiceBus.ExceptionInfo.",
}

// strippedAlways are headers that only dead-letter producers use.
var strippedAlways = set(
	family("kafka_original-", "topic", "partition", "offset", "timestamp", "timestamp-type"),
	family("kafka_exception-", "fqcn", "cause-fqcn", "message", "stacktrace"),
	family("kafka_key-exception-", "fqcn", "message", "stacktrace"),
	family("kafka_", "deliveryAttempt", "listenerInfo"),
	family("springDeserializerException", "Key", "Value"),
	family("x-original-", "topic", "partition", "offset", "timestamp", "timestamp-type"),
	family("x-exception-", "fqcn", "message", "stacktrace"),
	family("dead-letter-", "topic", "partition", "offset", "reason", "cause", "exception-class-name", "cause-class-name"),
	family("", "reason_poisoned", "topic_poisoned", "handler_poisoned", "subscriber_poisoned"),
	family("x-source-", "topic", "partition", "offset", "timestamp", "consumer-group-id"),
	family("x-", "retries", "failure-reason", "failed-attempts", "retry-count", "retry-attempt-count", "produce-time"),
	family("exc_", "class", "msg"),
	family("kafka_throwable_", "message", "code", "class_name"),
	family("ce_knativeerror", "dest", "code", "data"),
	family("NServiceBus.", "FailedQ", "TimeOfFailure", "Retries"),
	family("MT-", "Reason", "Redelivery-Count"),
	family("", "asyncRetry"),
)

// strippedFor contains, by dialect, the headers that are removed only from dead letters of this dialect.
var strippedFor = map[string]ownNames{
	k1s0.name: {names: set(sharedNames, plainFailure)},
	hexkit.name: {
		names: set(sharedNames, family("", hexkitEvent, hexkitFirstEvent, "service")),
		saved: hexkitFirstEvent, restored: hexkitEvent,
	},
	genericName:        {names: set(family("x-", "error-message", "error-type", "stack-trace", "consumer-group"))},
	karafka.name:       {names: set(sharedNames)},
	karafkaLegacy.name: {names: set(sharedNames, plainFailure)},
	karafkaHyphenated.name: {names: set(family("original-",
		"topic", "partition", "offset", "consumer-group", "key", "attempts"))},
	uberDLQ.name:   {prefixes: []string{uberPrefix}},
	greyhound.name: {names: set(family("", "GH_OriginalTopic", "GH_RetryAttempt", "submitTimestamp", "backOffTimeMs"))},
	wolverine.name: {names: set(family("", "exception-type", "exception-message", "exception-stack", "failed-at"))},
	dapr.name:      {names: set(family("", "__topic", "__partition", "__offset", "__timestamp", "__key", "pubsubName"))},
	quafka.name: {
		prefixes: []string{"X-Original", "X-Exception"},
		names: set(family("X-", "RetryAttempt", "RetryAttempts", "OverallRetryAttempt", "OverallRetryAttempts",
			"RetryPolicyIdentifier", "RetryIdentifier", "FromTopicPartitionOffset", "ForwardingTopic")),
	},
}

// ownNames are the headers that are removed from dead letters of a dialect, including those in which it saved a header
// that the replay restores.
type ownNames struct {
	names           map[string]bool
	prefixes        []string
	saved, restored string
}

// sharedNames are headers with plain names that several libraries write.
var sharedNames = append(
	family("source_", "topic", "partition", "offset", "consumer_group", "attempts", "trace_id"),
	family("original_", "topic", "partition", "offset", "consumer_group", "key", "attempts")...,
)

// plainFailure are further headers, in addition to sharedNames, in which hand-written producers describe a failure.
var plainFailure = family("", "error", "error_class", "error_message", "stack_trace", "consumer_group")

func family(prefix string, names ...string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = prefix + name
	}
	return out
}

func set(lists ...[]string) map[string]bool {
	out := make(map[string]bool)
	for _, list := range lists {
		for _, name := range list {
			out[name] = true
		}
	}
	return out
}
