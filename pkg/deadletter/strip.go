package deadletter

import (
	"regexp"
	"slices"
	"strings"

	"github.com/dlq-manager/dlq-manager/pkg/deadletter/internal/headername"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter/internal/headervalue"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Strip returns those headers of list that a replay of the message m to the topic target keeps, in their order and with
// repeated ones. list are the headers to be sent: those of m, or others that replace them. A consumer that finds the
// headers of a dead-letter producer could treat the replay as a failure, continue an old counter, or use a wrong offset.
// So Strip removes the headers that only dead-letter producers use; the headers of every dialect that m's headers show;
// and hand-written headers, as writtenByHand decides. It also removes the dlq- headers, because the replay sets its own.
// Headers that are part of the record itself, those that keep_headers names, and all others stay. The result is a new
// list that shares the values with the parameter list; it is nil when no header is kept. A dead letter of hexkit that is
// replayed to a retry topic keeps the header original_topic, which the service needs to process the record.
func (d *Decoder) Strip(m *entity.Message, target string, list []entity.Header) []entity.Header {
	var room [4]ownNames
	r := d.removal(m, target, room[:0])
	var kept []entity.Header
	name, restored := r.saved()
	saved := -1
	if name != "" {
		saved = headers(list).lastIndex(name)
	}
	for i, h := range list {
		if i == saved && len(h.Value) > 0 {
			h.Key = restored
		} else if r.removes(h.Key) && (h.Key != hexkitEvent || !ownEvent(h.Value, list)) {
			continue
		}
		if kept == nil {
			kept = make([]entity.Header, 0, len(list)+len(ourHeaders)) // room for the headers of the replay
		}
		kept = append(kept, h)
	}
	return kept
}

// removal says which headers a replay loses.
type removal struct {
	d        *Decoder
	own      []ownNames // headers of the dialects that the message shows
	kept     string     // header that stays although a dialect has it; "" for none
	aliases  bool       // every alias of the generic dialect is removed
	failure  bool       // every other name that belongs to a failure is removed too
	borrowed []string   // names of further aliases, from which fields of another dialect's failure were read
}

// removal returns which headers a replay of m to target loses; it appends to own.
func (d *Decoder) removal(m *entity.Message, target string, own []ownNames) removal {
	c := d.decodingOf(m.Source.Topic, m.Record)
	r := removal{d: d, own: own}
	add := func(dialect string) {
		names, ok := d.strips[dialect]
		if !ok {
			names = strippedFor[dialect]
		}
		r.own = append(r.own, names)
		if dialect == hexkit.name && hexkitRetry(target) {
			r.kept = hexkitTopic
		}
	}
	add(m.Failure.Dialect)
	var room [4]*dialect
	hops := c.recognise(room[:0])
	for _, hop := range hops {
		if hop.name != m.Failure.Dialect {
			add(hop.name)
		}
	}
	for _, weak := range d.dialects {
		if weak.weak && weak.name != m.Failure.Dialect && weak.claims(c.h, c.key) {
			add(weak.name)
		}
	}
	further := func(h entity.Header) bool { return (isAliasName(h.Key) || isFailureName(h.Key)) && !r.removes(h.Key) }
	if len(hops) > 0 && slices.ContainsFunc(m.Record.Headers, further) {
		r.aliases, r.failure, r.borrowed = c.writtenByHand(m)
	}
	return r
}

// writtenByHand decides about the hand-written headers of a record in which a dialect was recognised. When one names the
// original topic, all of them are removed, and with them all that belong to a failure (named). In a record of no
// framework, all are removed (all) also when two name different things of a failure among message, class, stack trace
// and attempts: otherwise they could be the application's own. Of a framework's record the application may describe what
// it likes, so there a header names the original topic only if that was read from it, or if the framework names the same
// topic. borrowed are the headers from which a value of another dialect's failure was read; they are removed in any case.
func (c *decoding) writtenByHand(m *entity.Message) (all, named bool, borrowed []string) {
	c.readAgain(m)
	framework := slices.ContainsFunc(c.hops, c.isFramework)
	var key string
	reads := func(d *dialect) bool { return d.topic == key && c.isFramework(d) }
	var says [fieldCount]bool
	for _, h := range m.Record.Headers {
		key = h.Key
		a, ok := lookUp(key)
		if !ok || ours(key) || len(h.Value) == 0 || slices.ContainsFunc(c.hops, reads) {
			continue
		}
		topic := string(h.Value)
		says[a.field] = says[a.field] || a.field != fieldTopic || entity.ValidTopic(topic) && (!framework || topic == c.root.topic)
	}
	things := 0
	for _, f := range [...]field{fieldMessage, fieldClass, fieldStack, fieldAttempts} {
		if says[f] {
			things++
		}
	}
	for _, t := range c.trail {
		if at := int(t.at) - 1; framework && at >= 0 && at < len(m.Record.Headers) && (t.dialect == nil || t.dialect.name == genericName) {
			borrowed = append(borrowed, m.Record.Headers[at].Key)
		}
	}
	named = says[fieldTopic] || c.root.dialect != nil && !c.isFramework(c.root.dialect)
	return named || !framework && things >= 2, named, borrowed
}

// isFramework reports whether a framework wrote the headers of the dialect. Producers without one write those of k1s0,
// and those of karafka-legacy but for the saved key.
func (c *decoding) isFramework(d *dialect) bool {
	return d.name != genericName && d.name != k1s0.name && (d.name != karafkaLegacy.name || c.h.has(karafkaKeys[d.name]))
}

// ownEvent reports whether a value of hexkit's header event_id is the application's own: the dead letter's list of
// headers saves no other, and hexkit did not write the value.
func ownEvent(value []byte, list headers) bool {
	return !list.has(hexkitFirstEvent) && eventParts(value) == nil
}

// saved returns the name of the header with the application's own value of the header restored; "" for none.
func (r removal) saved() (saved, restored string) {
	for _, own := range r.own {
		if own.saved != "" {
			return own.saved, own.restored
		}
	}
	return "", ""
}

func (r removal) removes(key string) bool {
	if ours(key) {
		return true
	}
	begins := func(prefix string) bool { return strings.HasPrefix(key, prefix) }
	producers := slices.ContainsFunc(strippedPrefixes[:], begins) || strippedAlways[key] ||
		r.aliases && isAliasName(key) || r.failure && isFailureName(key) || slices.Contains(r.borrowed, key)
	for i := range r.own {
		producers = producers || r.own[i].has(key)
	}
	return producers && key != r.kept && !partOfRecord(key) && !slices.ContainsFunc(r.d.keep, func(g *regexp.Regexp) bool { return g.MatchString(key) })
}

func isAliasName(key string) bool {
	_, ok := lookUp(key)
	return ok
}

// isFailureName reports whether a header's name belongs to a failure, as the name of an envelope's member does.
func isFailureName(key string) bool {
	if len(key) > longestAlias {
		return false
	}
	a, ok := findMember(foldMember(key))
	return ok && slices.Contains(failureFields[:], a.field)
}

// failureFields are what only a failure says.
var failureFields = [...]field{fieldMessage, fieldClass, fieldStack, fieldAttempts, fieldCode, fieldTime}

// partOfRecord reports whether a header belongs to the record itself, which could not be read or followed without it:
// trace context, the types and schemas of key and value, and the attributes of a CloudEvent.
func partOfRecord(key string) bool {
	is := func(name string) bool { return len(key) == len(name) && strings.EqualFold(key, name) }
	begins := func(prefix string) bool {
		return len(key) >= len(prefix) && strings.EqualFold(key[:len(prefix)], prefix)
	}
	const id = "schema_id"
	return slices.ContainsFunc(recordNames[:], is) || len(key) >= len(id) && strings.EqualFold(key[len(key)-len(id):], id) ||
		slices.ContainsFunc(recordPrefixes[:], begins) && !strippedAlways[key]
}

// recordNames and recordPrefixes are headers that belong to the record itself, in any case.
var (
	recordNames    = [...]string{"traceparent", "tracestate", "baggage", "b3", "content-type", "contentType", "content-encoding", "__TypeId__", "__KeyTypeId__"}
	recordPrefixes = [...]string{"ce_", "apicurio."}
)

// ReplayRemoves returns the names of the headers that a replay of a message to target removes, each once.
func (d *Decoder) ReplayRemoves(m *entity.Message, target string) []string {
	return missing(m, d.Strip(m, target, m.Record.Headers))
}

// missing returns the names of the message's headers that are not among those that are kept, each once.
func missing(m *entity.Message, kept headers) (names []string) {
	for _, h := range m.Record.Headers {
		if !kept.has(h.Key) && !ours(h.Key) && !slices.Contains(names, h.Key) {
			names = append(names, h.Key)
		}
	}
	return names
}

// ReplayHeaders returns what a replay of a message to target does with the message's headers. The parameter e is the
// message's explanation.
func (d *Decoder) ReplayHeaders(m *entity.Message, target string, e entity.Explanation) entity.ReplayHeaders {
	kept := headers(d.Strip(m, target, m.Record.Headers))
	r := entity.ReplayHeaders{Removes: missing(m, kept)}
	for _, from := range e.Fields() {
		if kept.has(from.Header) && from.Header != "" && from.Header != nserviceBusSent && from.Header != hexkitEvent && !slices.Contains(r.Keeps, from.Header) {
			r.Keeps = append(r.Keeps, from.Header)
		}
	}
	slices.Sort(r.Keeps)
	return r
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

func (n ownNames) has(key string) bool {
	return n.names[key] || slices.ContainsFunc(n.prefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}

// sharedNames are headers with plain names that several libraries write.
var sharedNames = append(
	headername.Family("source_", "topic", "partition", "offset", "consumer_group", "attempts", "trace_id"),
	headername.Family("original_", "topic", "partition", "offset", "consumer_group", "key", "attempts")...,
)

// plainFailure are further headers, in addition to sharedNames, in which hand-written producers describe a failure.
var plainFailure = headername.Family("", "error", "error_class", "error_message", "stack_trace", "consumer_group")
