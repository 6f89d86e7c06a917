package deadletter

import "slices"

// dialect is the header vocabulary of one dead-letter producer: a table, and a few hooks.
type dialect struct {
	name string

	anchors [][]string // the dialect claims a record with all headers of any one set, if accept, when set, agrees
	accept  func(h headers, key []byte) bool

	// configured dialects are the user's own. They apply to the dead-letter topics that match where, and are tried
	// before all others.
	configured bool
	where      Patterns

	shared      bool // other producers use the name of its anchor too, and only accept distinguishes them
	weak        bool // used only when no other dialect claims the record
	newestFirst bool // the producer's headers come before the copied headers, the latest failure first
	keepsTime   bool // the dead letter has the original record's timestamp
	topicIDs    bool // the producer may write the id of a topic in place of a name that it does not know
	// queues means that the producer was made for another kind of broker. The queue names in its headers are topics
	// only if the cluster has topics of these names.
	queues bool

	// The position is a tuple: the i-th topic belongs to the i-th partition, offset and timestamp.
	topic, partition, offset, timestamp string

	// Of each list, the first header that has a value is used. The headers of causes are written only when the
	// exception has a cause; they are tried before those of classes.
	causes, classes, messages, stacks, groups, attempts []string

	rootInStack  bool // the class and message of the root cause are only in the stack trace
	groupFollows bool // a known consumer group is written after its hop's topic, so its position identifies the hop
	// unwrap, when set, extracts a field from a header's value.
	unwrap func(field, []byte) []byte

	// Hooks for what the table cannot express. They take and return values, because a pointer that is passed to an
	// unknown function would escape to the heap.
	refinePlace   func(headers, place) place
	refineFailure func(headers, failure) failure
}

// dialects in the order of their certainty: first names that are reserved for a product, then a framework's own
// names, then shared names that only companion headers distinguish. The order decides when nothing else identifies
// the dialect.
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

// Dialects returns the name of every built-in dialect, the most certain first.
func Dialects() []string {
	names := make([]string, 0, len(dialects)+1)
	for i := range dialects {
		names = append(names, dialects[i].name)
	}
	return append(names, genericName)
}

// dialectSet is a set of dialects, with one bit for each dialect of a decoder.
type dialectSet uint64

// vocabulary maps header names to the dialects that use them, so that one pass over a record leaves few dialects to
// check.
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

// readWords returns the headers whose values the dialect reads.
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

// byCompanions reports whether no header alone is enough to recognise the dialect.
func (d *dialect) byCompanions() bool {
	return d.shared || !slices.ContainsFunc(d.anchors, func(anchor []string) bool { return len(anchor) == 1 })
}

// value returns the part of a header's value that a field needs.
func (d *dialect) value(f field, raw []byte) []byte {
	if d.unwrap == nil || len(raw) == 0 {
		return raw
	}
	return d.unwrap(f, raw)
}

// recognise appends the dialects that the record matches: first the user's dialects, then the built-in dialects, the
// latest failure first. It appends a weak or generic dialect only if the record matches no other.
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

// claiming appends the dialects of the set for which the function asked returns true and which match the record.
func (c *decoding) claiming(hops []*dialect, set dialectSet, asked func(*dialect) bool) []*dialect {
	for i, d := range c.d.dialects {
		if set&(1<<i) != 0 && asked(d) && d.claims(c.h, c.key) {
			hops = append(hops, d)
		}
	}
	return hops
}

// builtIn returns the dialects in others, then pointers to the built-in dialects.
func builtIn(others []*dialect) []*dialect {
	all := slices.Clone(others)
	for i := range dialects {
		all = append(all, &dialects[i])
	}
	return all
}

// lacks reports whether the dialect has no header for a field of a failure.
func (d *dialect) lacks(f field) bool {
	words := [fieldCount]int{
		fieldClass: len(d.causes) + len(d.classes), fieldMessage: len(d.messages), fieldStack: len(d.stacks),
		fieldGroup: len(d.groups), fieldAttempts: len(d.attempts),
	}
	return words[f] == 0
}
