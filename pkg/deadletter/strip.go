package deadletter

import (
	"maps"
	"slices"
	"strings"

	"github.com/dlq-manager/dlq-manager/pkg/deadletter/internal/headername"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter/internal/headervalue"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Strip returns the headers that a replay keeps, in their order and with repeated ones. It removes the headers of
// dead-letter producers: a consumer that finds them could treat the replay as a failure, continue an old counter, or
// use a wrong offset. It also removes the dlq- headers, because the replay sets its own. A header that an application
// might use itself is removed only when the given dialect writes it. Everything else stays: trace context, content
// type, correlation ids and all unknown headers. The result is a new list that shares the values with the parameter
// headers; it is nil when no header is kept. Strip does not remove the headers of configured dialects; see
// Decoder.Strip.
func Strip(dialect string, headers []entity.Header) []entity.Header {
	return strip(strippedFor[dialect], headers)
}

// Strip does the same as the function Strip for a replay to the topic target, and also removes the headers of
// configured dialects. A dead letter of hexkit that is replayed to a retry topic keeps the header original_topic, which
// the service needs to process the record.
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
// dead letter another key, and save the key of the record that failed in a header or inside the new key. When the key
// of the record that failed was saved, ReplayKey returns the saved key. The caller must not modify the result.
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
	begins := func(prefix string) bool { return strings.HasPrefix(key, prefix) }
	return ours(key) || strippedAlways[key] || own.names[key] ||
		slices.ContainsFunc(strippedPrefixes[:], begins) || slices.ContainsFunc(own.prefixes, begins)
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
var strippedAlways = headername.Set(
	headername.Family("kafka_original-", "topic", "partition", "offset", "timestamp", "timestamp-type"),
	headername.Family("kafka_exception-", "fqcn", "cause-fqcn", "message", "stacktrace"),
	headername.Family("kafka_key-exception-", "fqcn", "message", "stacktrace"),
	headername.Family("kafka_", "deliveryAttempt", "listenerInfo"),
	headername.Family("springDeserializerException", "Key", "Value"),
	headername.Family("x-original-", "topic", "partition", "offset", "timestamp", "timestamp-type"),
	headername.Family("x-exception-", "fqcn", "message", "stacktrace"),
	headername.Family("dead-letter-", "topic", "partition", "offset", "reason", "cause", "exception-class-name", "cause-class-name"),
	headername.Family("", "reason_poisoned", "topic_poisoned", "handler_poisoned", "subscriber_poisoned"),
	headername.Family("x-source-", "topic", "partition", "offset", "timestamp", "consumer-group-id"),
	headername.Family("x-", "retries", "failure-reason", "failed-attempts", "retry-count", "retry-attempt-count", "produce-time"),
	headername.Family("exc_", "class", "msg"),
	headername.Family("kafka_throwable_", "message", "code", "class_name"),
	headername.Family("ce_knativeerror", "dest", "code", "data"),
	headername.Family("NServiceBus.", "FailedQ", "TimeOfFailure", "Retries"),
	headername.Family("MT-", "Reason", "Redelivery-Count"),
	headername.Family("", "asyncRetry"),
)

// strippedFor contains, by dialect, the headers that are removed only from dead letters of this dialect.
var strippedFor = map[string]ownNames{
	k1s0.name: {names: headername.Set(sharedNames, plainFailure)},
	hexkit.name: {
		names: headername.Set(sharedNames, headername.Family("", hexkitEvent, hexkitFirstEvent, "service")),
		saved: hexkitFirstEvent, restored: hexkitEvent,
	},
	genericName:        {names: headername.Set(headername.Family("x-", "error-message", "error-type", "stack-trace", "consumer-group"))},
	karafka.name:       {names: headername.Set(sharedNames)},
	karafkaLegacy.name: {names: headername.Set(sharedNames, plainFailure)},
	karafkaHyphenated.name: {names: headername.Set(headername.Family("original-",
		"topic", "partition", "offset", "consumer-group", "key", "attempts"))},
	uberDLQ.name:   {prefixes: []string{uberPrefix}},
	greyhound.name: {names: headername.Set(headername.Family("", "GH_OriginalTopic", "GH_RetryAttempt", "submitTimestamp", "backOffTimeMs"))},
	wolverine.name: {names: headername.Set(headername.Family("", "exception-type", "exception-message", "exception-stack", "failed-at"))},
	dapr.name:      {names: headername.Set(headername.Family("", "__topic", "__partition", "__offset", "__timestamp", "__key", "pubsubName"))},
	quafka.name: {
		prefixes: []string{"X-Original", "X-Exception"},
		names: headername.Set(headername.Family("X-", "RetryAttempt", "RetryAttempts", "OverallRetryAttempt", "OverallRetryAttempts",
			"RetryPolicyIdentifier", "RetryIdentifier", "FromTopicPartitionOffset", "ForwardingTopic")),
	},
}

// ownNames names the headers that are removed from dead letters of a dialect. saved is the name of the header in which
// the producer keeps the value of the application's header restored. A replay sends that value under the name restored
// again.
type ownNames struct {
	names           map[string]bool
	prefixes        []string
	saved, restored string
}

// sharedNames are headers with plain names that several libraries write.
var sharedNames = append(
	headername.Family("source_", "topic", "partition", "offset", "consumer_group", "attempts", "trace_id"),
	headername.Family("original_", "topic", "partition", "offset", "consumer_group", "key", "attempts")...,
)

// plainFailure are further headers, in addition to sharedNames, in which hand-written producers describe a failure.
var plainFailure = headername.Family("", "error", "error_class", "error_message", "stack_trace", "consumer_group")
