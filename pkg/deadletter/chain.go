package deadletter

import (
	"cmp"
	"slices"

	"github.com/dlq-manager/dlq-manager/pkg/deadletter/internal/headervalue"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter/internal/naming"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// A hop is one failure of a record. A record that failed more than once contains the headers of several hops. This file
// finds the latest and the first hop.

// latestFirst orders the dialects of one record by the time at which their producers wrote the headers, the latest
// first. Three rules compare two dialects. First, a dialect is later if it names an original topic from whose name the
// name of this dead-letter topic is derived. Second, a dialect is later if it reports a failure in a dead-letter or
// retry topic. Third, a dialect is later if its headers come later in the list, because producers append headers.
func (c *decoding) latestFirst(hops []*dialect) {
	if len(hops) < 2 {
		return
	}
	namesake := func(d *dialect) bool { return naming.Derives(c.topic, d.latestTopic(c.h)) }
	later := func(d *dialect) bool { return c.suspect(d.latestTopic(c.h)) }
	slices.SortStableFunc(hops, func(a, b *dialect) int {
		return cmp.Or(
			descending(namesake(a), namesake(b)),
			descending(later(a), later(b)),
			cmp.Compare(b.position(c.h), a.position(c.h)),
		)
	})
}

func descending(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

func (d *dialect) latestTopic(h headers) string {
	if d.topic == "" {
		return ""
	}
	if i := d.latestIndex(h, d.topic); i >= 0 {
		return headervalue.Text(d.value(fieldTopic, h[i].Value), entity.MaxTopic)
	}
	return ""
}

// position returns the index of the last header that the dialect wrote; -1 for a dialect whose producer writes its
// headers before those of the record, because their index has no meaning.
func (d *dialect) position(h headers) int {
	last := -1
	if d.newestFirst {
		return last
	}
	for _, word := range d.words() {
		last = max(last, h.lastIndex(word))
	}
	return last
}

// latestIndex returns the index of the header with the given key that the dialect's producer wrote at the record's
// latest failure; -1 when there is none.
func (d *dialect) latestIndex(h headers, key string) int {
	if d.newestFirst {
		return h.nthIndex(key, 0)
	}
	return h.lastIndex(key)
}

// latestBlock returns the part h[from:to] of the headers that cannot belong to an earlier failure (hop) of the same
// dialect. Some headers are not written at every failure, such as the header with the class of a cause. Headers that
// are not always written are read only in h[from:to], because outside of this part they belong to an earlier failure.
func (d *dialect) latestBlock(h headers) (from, to int) {
	to = len(h)
	always := [...]string{d.topic, d.partition, d.offset, firstOf(d.classes), firstOf(d.messages)}
	for _, key := range always {
		if key == "" {
			continue
		}
		if d.newestFirst {
			if second := h.nthIndex(key, 1); second >= 0 {
				to = min(to, second)
			}
		} else {
			from = max(from, h[:max(h.lastIndex(key), 0)].lastIndex(key)+1)
		}
	}
	return min(from, to), to
}

func firstOf(keys []string) string {
	if len(keys) == 0 {
		return ""
	}
	return keys[0]
}

// occurrence says which of count headers of the same name belongs to the failure (hop) of the given age, as an index
// among these headers. The oldest failure has the age 0.
func (d *dialect) occurrence(age, count int) int {
	if d.newestFirst {
		return count - 1 - age
	}
	return age
}

// groupOfOrigin returns the consumer group that failed when the original topic was written into the headers, because
// that consumer group reads the topic to which a replay goes. It returns latest, the group of the latest failure, if
// the record failed only once, if no header names a topic, or if only the generic dialect does and latest is known.
func (c *decoding) groupOfOrigin(latest string) string {
	m := c.root
	if m.dialect == nil || latest != "" && m.dialect.name == genericName || m.dialect == c.hops[0] && c.h.count(m.dialect.topic) < 2 {
		return latest
	}
	at, group := c.groupOf(m)
	c.trail[fieldGroup] = trace{}
	if at > 0 {
		c.trail[fieldGroup] = trace{dialect: m.dialect, at: at}
	}
	return group
}

// groupOf returns the consumer group of the failure whose topic is m, and the index of the group's header, counted from
// 1. The index is 0 when no header names the group.
func (c *decoding) groupOf(m mention) (at int32, group string) {
	d := m.dialect
	count := c.h.count(d.topic)
	if count < 2 && !d.groupFollows {
		f := d.failure(c.h)
		return f.at[fieldGroup], f.ConsumerGroup
	}
	n := d.occurrence(m.age, count)
	for _, key := range d.groups {
		i := -1
		if d.groupFollows {
			i = c.behindTopic(key, c.h.nthIndex(d.topic, n))
		} else if c.h.count(key) == count {
			i = c.h.nthIndex(key, n)
		}
		if i < 0 {
			continue
		}
		if value := headervalue.Text(d.value(fieldGroup, c.h[i].Value), MaxConsumerGroup); value != "" {
			return int32(i + 1), value
		}
	}
	return 0, ""
}

// behindTopic returns the index of the first header with the given key after the index from, but before the header that
// names the topic of the next failure; -1 when there is no such header.
func (c *decoding) behindTopic(key string, from int) int {
	for i := from + 1; i < len(c.h); i++ {
		if c.h[i].Key == key {
			return i
		}
		if slices.ContainsFunc(c.hops, func(d *dialect) bool { return d.topic == c.h[i].Key }) {
			return -1
		}
	}
	return -1
}
