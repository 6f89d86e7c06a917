package deadletter

import (
	"slices"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// dialect is the header vocabulary of one dead-letter producer. Most of it is a
// table; two hooks say what a table cannot.
type dialect struct {
	name string

	// anchors: the dialect claims a record that has all headers of any one set.
	// accept, when set, must agree.
	anchors [][]string
	accept  func(headers) bool

	// weak dialects speak only when no other claims the record.
	weak bool
	// newestFirst: the producer writes its own headers before the copied ones,
	// so repeated keys run from the latest failure back to the first.
	newestFirst bool
	// keepsTime: the dead letter has the original record's timestamp.
	keepsTime bool
	// topicIDs: the producer may write a topic's id where it has no name.
	topicIDs bool

	// The position is a tuple: the i-th topic goes with the i-th partition,
	// offset and timestamp.
	topic, partition, offset, timestamp string

	// Of each list the first header that says anything counts. causes are written
	// only when there was a cause, and name the class better than classes.
	causes, classes, messages, stacks, groups, attempts []string

	// They take and return values: a pointer given to an unknown function would
	// have to live on the heap, once for every record.
	refinePlace   func(headers, place) place
	refineFailure func(headers, entity.Failure, string) (entity.Failure, string)
}

// dialects in the order of their certainty: names reserved for a machine first,
// then a framework's own, then names that several share and only companions
// tell apart. The order settles which dialect is named when nothing else does.
var dialects = []dialect{
	shareGroup, connect, streams, confluentRule,
	springDLT, springRetryTopic, smallryeDLQ, smallryeRetry, micronaut, watermill,
	silverback, karafka, quafka, greyhound, laravel, wolverine,
	hexkit, karafkaLegacy, k1s0,
	scst,
	dapr,
}

// Dialects returns the name of every dialect that Decode can report, the most
// certain first.
func Dialects() []string {
	names := make([]string, 0, len(dialects)+1)
	for i := range dialects {
		names = append(names, dialects[i].name)
	}
	return append(names, genericName)
}

// dialectSet has one bit for each entry of dialects.
type dialectSet uint32

// vocabulary maps every header name to the dialects that know it, so that one
// pass over a record's headers leaves few dialects to look at.
func vocabulary() map[string]dialectSet {
	words := make(map[string]dialectSet)
	for i := range dialects {
		for _, word := range dialects[i].words() {
			words[word] |= 1 << i
		}
	}
	return words
}

func (d *dialect) words() []string {
	words := slices.Concat(d.anchors...)
	words = append(words, d.topic, d.partition, d.offset, d.timestamp)
	words = append(words, slices.Concat(d.causes, d.classes, d.messages, d.stacks, d.groups, d.attempts)...)
	return slices.DeleteFunc(words, func(word string) bool { return word == "" })
}

func (d *dialect) claims(h headers) bool {
	if d.accept != nil && !d.accept(h) {
		return false
	}
	return slices.ContainsFunc(d.anchors, h.hasAll)
}

// recognise appends the dialects that claim the record, the latest failure
// first. Weak ones and the generic aliases are asked only when all others pass.
func (c *decoding) recognise(hops []*dialect) []*dialect {
	var seen dialectSet
	for i := range c.h {
		seen |= c.d.words[c.h[i].Key]
	}
	for _, weak := range [...]bool{false, true} {
		for i := range dialects {
			d := &dialects[i]
			if seen&(1<<i) != 0 && d.weak == weak && d.claims(c.h) {
				hops = append(hops, d)
			}
		}
		if len(hops) > 0 {
			return c.latestFirst(hops)
		}
	}
	if d := generic(c.h); d != nil {
		hops = append(hops, d)
	}
	return hops
}
