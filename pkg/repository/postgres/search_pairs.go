package postgres

import (
	"maps"
	"slices"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// alternatives reports whether what a filter says about the topics of one walk has
// several ways to be true: a dead-letter topic of which only some originals are asked
// for or may be seen, or messages of unknown origin of which only some may. No index
// has such a walk in order, and those that fit may be few among millions.
func alternatives(f entity.Filter, n names) bool {
	switch {
	case n.topics == nil && n.visible == nil:
		return false
	case f.Topic != "":
		return n.number.Valid
	}
	return f.UnknownOrigin || n.topics == nil
}

// walksOfPairs are the walks of such a filter, one for each pair of an original topic
// and a dead-letter topic that fits, or for an original topic that says all by itself:
// so the rarer of the two is walked along. It reports false where there are no
// alternatives, where nobody knows the pairs, and where they are too many.
func (a *arguments) walksOfPairs(f entity.Filter, n names) (walks [][]string, apart bool) {
	if n.pairs == nil || !alternatives(f, n) {
		return nil, false
	}
	fit := map[string][]int32{}
	for _, number := range slices.Sorted(maps.Keys(n.pairs)) {
		for _, original := range n.pairs[number] {
			if n.fits(f, original, number) {
				fit[original] = append(fit[original], number)
			}
		}
	}
	for _, original := range slices.Sorted(maps.Keys(fit)) {
		topic := "m.original_topic = " + a.text(original)
		if n.suffices(f, original) {
			walks = append(walks, []string{topic})
			continue
		}
		for _, number := range fit[original] {
			walks = append(walks, []string{topic, a.deadLetterTopic(number)})
		}
	}
	if len(walks) > maxWalks {
		a.values = nil
		return nil, false
	}
	return walks, true
}

// suffices reports whether messages of an original topic that fit do so in whatever
// dead-letter topic they are, also in one that appears meanwhile.
func (n names) suffices(f entity.Filter, original string) bool {
	return (original != "" || n.visible == nil) && (f.Topic == "" || original == f.Topic) &&
		(n.topics == nil || slices.Contains(n.topics.originals, original))
}

func (a *arguments) deadLetterTopic(number int32) string {
	if number == 0 {
		return "m.dlq_topic_id IS NULL"
	}
	return "m.dlq_topic_id = " + a.arg(number) + "::int"
}

// fits reports whether a filter asks for messages of a pair, and they may be seen.
func (n names) fits(f entity.Filter, original string, number int32) bool {
	switch {
	case f.Topic != "" && original != f.Topic && (!n.number.Valid || number != n.number.Int32):
		return false
	case f.UnknownOrigin && original != "":
		return false
	case n.topics != nil && !slices.Contains(n.topics.originals, original) && !slices.Contains(n.topics.numbers, number):
		return false
	case n.visible == nil || original != "":
		return n.visible.sees(original, number)
	}
	return n.visible.sees(original, number) || number == 0 && n.visible.unnamed
}
