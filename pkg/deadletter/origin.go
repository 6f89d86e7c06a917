package deadletter

import (
	"iter"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// place is where a record failed, as one hop tells it.
type place struct {
	topic     string
	partition *int32
	offset    *int64
	timestamp time.Time
}

// origin decides where the record belongs: the operator's mapping, then a
// header, then the dead-letter topic's name. Partition and offset are given only
// when the header that has them named the same topic.
func (c *decoding) origin(ts time.Time) (string, entity.Origin) {
	p, found := c.headerPlace(ts)
	o := entity.Origin{Confidence: entity.FromNothing, Timestamp: p.timestamp}
	topic := ""
	if mapped := c.mapped(); mapped != "" {
		topic, o.Confidence = mapped, entity.FromMapping
	} else if found {
		topic, o.Confidence = p.topic, entity.FromHeader
	} else if named := c.named(); named != "" {
		topic, o.Confidence = named, entity.FromName
	}
	if found && topic == p.topic {
		o.Partition, o.Offset = p.partition, p.offset
	}
	return topic, o
}

// headerPlace looks for the root: of every hop, the latest first, the oldest
// topic that is plain. A topic that only looks like a dead-letter or retry topic
// by its name is taken when no hop has a better one. Where no dialect names a
// topic, the generic aliases may.
func (c *decoding) headerPlace(ts time.Time) (place, bool) {
	r, ok := c.root(c.hops)
	if !ok && len(c.hops) > 0 && c.hops[0].name != genericName {
		if d := generic(c.h); d != nil {
			r, ok = c.root([]*dialect{d})
		}
	}
	if !ok {
		return place{}, false
	}
	p := c.placeAt(r)
	if r.dialect == c.hops[0] && r.dialect.keepsTime && p.timestamp.IsZero() {
		p.timestamp = plausible(ts)
	}
	return p, true
}

// mention is a topic that a dialect named. age 0 is the oldest.
type mention struct {
	dialect *dialect
	age     int
	topic   string
}

func (c *decoding) root(hops []*dialect) (mention, bool) {
	var second mention
	for _, d := range hops {
		for age, value := range d.topics(c.h) {
			m := mention{dialect: d, age: age, topic: c.asOrigin(d, value)}
			if m.topic == "" {
				continue
			}
			if !looksDead(m.topic) {
				return m, true
			}
			if second.topic == "" {
				second = m
			}
		}
	}
	return second, second.topic != ""
}

// topics goes through the topics that the dialect named, by age. It walks the list
// once: a hostile record repeats a header a hundred thousand times.
func (d *dialect) topics(h headers) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		age := 0
		for i := range h {
			at := d.occurrence(i, len(h))
			if d.topic == "" || h[at].Key != d.topic {
				continue
			}
			if !yield(age, h[at].Value) {
				return
			}
			age++
		}
	}
}

// asOrigin returns the topic of a header's value, or "" when it cannot be an origin.
func (c *decoding) asOrigin(d *dialect, value []byte) string {
	if len(value) > maxTopic {
		return ""
	}
	name := string(value)
	if !c.possible(name) || d.topicIDs && topicID(name) && !c.exists(name) {
		return ""
	}
	return name
}

// placeAt completes the tuple. Where a header occurs less often than the topic
// nobody can tell which hop it belongs to, and it is left out.
func (c *decoding) placeAt(m mention) place {
	d := m.dialect
	count := c.h.count(d.topic)
	n := d.occurrence(m.age, count)
	aligned := func(key string) []byte {
		if key == "" || c.h.count(key) != count {
			return nil
		}
		return c.h.nth(key, n)
	}
	p := place{
		topic:     m.topic,
		partition: partition(aligned(d.partition)),
		offset:    offset(aligned(d.offset)),
		timestamp: timestamp(aligned(d.timestamp)),
	}
	if d.refinePlace != nil {
		return d.refinePlace(c.h, p)
	}
	return p
}

// possible reports whether a topic can be an origin: Kafka allows the name and
// it is no dead-letter topic. That keeps replays from going round in circles.
func (c *decoding) possible(topic string) bool {
	return ValidTopic(topic) && topic != c.topic && !c.d.patterns.Match(topic)
}

// suspect reports whether a topic is, or by its name seems to be, a dead-letter
// or retry topic.
func (c *decoding) suspect(topic string) bool {
	return topic != "" && (topic == c.topic || c.d.patterns.Match(topic) || looksDead(topic))
}
