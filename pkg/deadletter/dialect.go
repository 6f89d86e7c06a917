package deadletter

import "slices"

// dialect describes how one producer writes dead letters: a table of header names, and a few hooks.
type dialect struct {
	name string

	anchors [][]string // sets of headers; the dialect matches a record that contains all headers of any one set, unless accept returns false
	accept  func(h headers, key []byte) bool

	// configured dialects are the user's own. A configured dialect is used in the dead-letter topics that the field where
	// matches, and is tried before all built-in dialects.
	configured bool
	where      Patterns

	shared      bool // other producers use the names of its anchors too, so the function accept must recognise the dialect by more than its anchors
	weak        bool // used only when no other dialect matches the record
	newestFirst bool // the producer writes its headers before those of the record, so the latest failure comes first
	keepsTime   bool // the dead letter keeps the timestamp of the original record
	topicIDs    bool // when the producer does not know a topic's name, it may write the topic's id in its place
	// queues means that the producer was made for another kind of broker, whose queues its headers name. A queue's name
	// is used as a topic only if the cluster has a topic with this name.
	queues bool

	// Headers of the position. When these headers occur several times, the n-th topic, partition, offset and timestamp
	// belong together.
	topic, partition, offset, timestamp string

	// Headers of the failure. Of each list, the first header that has a value is used. Producers write the headers in
	// causes only when the exception has a cause; for the class they are tried before those in classes.
	causes, classes, messages, stacks, groups, attempts []string

	rootInStack  bool // the class and the message of the root cause are only in the stack trace
	groupFollows bool // the producer may write no consumer group; if it does, the group's header follows the topic's header of the same failure
	// unwrap extracts the value of a field from a header's value. unwrap is nil when each header's value is the value of
	// one field.
	unwrap func(field, []byte) []byte

	// Hooks for what the table cannot express. The hooks take and return structs by value, because a struct whose address
	// is passed to a function value would be allocated on the heap.
	refinePlace   func(headers, place) place
	refineFailure func(headers, failure) failure
}

// dialects are the built-in dialects, the most certain first: dialects with header names that are reserved for a
// product, then those with a framework's own names. The last dialects in the list have header names that other
// producers use too, so they are recognised only by further headers. The order decides between two dialects when
// nothing else does.
var dialects = []dialect{
	shareGroup, connect, streams, confluentRule,
	springDLT, springRetryTopic, smallryeDLQ, smallryeRetry, smallryeDeserialization, micronaut, watermill,
	silverback, karafka, quafka, greyhound, kafkajsAsyncRetry, kafkaflowRetry, laravel,
	nserviceBus, massTransit, wolverine, knative, cronsumer,
	hexkit, karafkaLegacy, karafkaHyphenated, k1s0,
	scst,
	uberDLQ,
	dapr,
}

// Dialects returns the names of all built-in dialects, those with the most distinctive header names first, and of the
// generic dialect.
func Dialects() []string {
	names := make([]string, 0, len(dialects)+1)
	for i := range dialects {
		names = append(names, dialects[i].name)
	}
	return append(names, genericName)
}

// dialectSet is a set of a decoder's dialects, with one bit for each.
type dialectSet uint64

// vocabulary returns a map from the name of each header to the dialects that use it. With this map, one pass over a
// record's headers finds the few dialects that may match the record.
func vocabulary(dialects []*dialect) map[string]dialectSet {
	words := make(map[string]dialectSet)
	for i, d := range dialects {
		for _, word := range d.words() {
			words[word] |= 1 << i
		}
	}
	return words
}

func (d *dialect) words() []string {
	words := slices.Concat(d.anchors...)
	return append(words, d.readWords()...)
}

// readWords returns the names of the headers whose values the dialect reads.
func (d *dialect) readWords() []string {
	words := []string{d.topic, d.partition, d.offset, d.timestamp}
	words = append(words, slices.Concat(d.causes, d.classes, d.messages, d.stacks, d.groups, d.attempts)...)
	return slices.DeleteFunc(words, func(word string) bool { return word == "" })
}

func (d *dialect) claims(h headers, key []byte) bool {
	if d.accept != nil && !d.accept(h, key) {
		return false
	}
	return slices.ContainsFunc(d.anchors, h.hasAll)
}

// byCompanions reports whether the dialect is recognised only by several headers together.
func (d *dialect) byCompanions() bool {
	return d.shared || !slices.ContainsFunc(d.anchors, func(anchor []string) bool { return len(anchor) == 1 })
}

// value returns the part of a header's value that contains the field f.
func (d *dialect) value(f field, raw []byte) []byte {
	if d.unwrap == nil || len(raw) == 0 {
		return raw
	}
	return d.unwrap(f, raw)
}

// recognise appends the dialects that match the record: first the user's dialects, then the built-in ones, that of the
// latest failure first. It appends a weak dialect only if no other dialect matches, and the generic dialect only if no
// weak one matches either.
func (c *decoding) recognise(hops []*dialect) []*dialect {
	var seen dialectSet
	for i := range c.h {
		seen |= c.d.words[c.h[i].Key]
	}
	hops = c.claiming(hops, seen, func(d *dialect) bool { return d.configured && d.where.Match(c.topic) })
	own := len(hops)
	hops = c.claiming(hops, seen, func(d *dialect) bool { return !d.configured && !d.weak })
	if len(hops) == 0 {
		hops = c.claiming(hops, seen, func(d *dialect) bool { return d.weak })
	}
	c.latestFirst(hops[own:])
	if len(hops) > 0 {
		return hops
	}
	if d := generic(c.h); d != nil {
		hops = append(hops, d)
	}
	return hops
}

// claiming appends those dialects of the set that the function asked accepts and that match the record.
func (c *decoding) claiming(hops []*dialect, set dialectSet, asked func(*dialect) bool) []*dialect {
	for i, d := range c.d.dialects {
		if set&(1<<i) != 0 && asked(d) && d.claims(c.h, c.key) {
			hops = append(hops, d)
		}
	}
	return hops
}

// builtIn returns a list of the given dialects, followed by the built-in dialects.
func builtIn(others []*dialect) []*dialect {
	all := slices.Clone(others)
	for i := range dialects {
		all = append(all, &dialects[i])
	}
	return all
}

// lacks reports whether the dialect reads no header for the given field of a failure.
func (d *dialect) lacks(f field) bool {
	words := [fieldCount]int{
		fieldClass: len(d.causes) + len(d.classes), fieldMessage: len(d.messages), fieldStack: len(d.stacks),
		fieldGroup: len(d.groups), fieldAttempts: len(d.attempts),
	}
	return words[f] == 0
}
