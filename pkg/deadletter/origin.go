package deadletter

import (
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
	found, at, ok := c.root(c.hops)
	if !ok && len(c.hops) > 0 && c.hops[0].name != genericName {
		if d := generic(c.h); d != nil {
			found, at, ok = c.root([]*dialect{d})
		}
	}
	if ok && at == c.hops[0] && at.keepsTime && found.timestamp.IsZero() {
		found.timestamp = plausible(ts)
	}
	return found, ok
}

func (c *decoding) root(hops []*dialect) (place, *dialect, bool) {
	var second *dialect
	var secondAge int
	for _, d := range hops {
		if d.topic == "" {
			continue
		}
		for age := range c.h.count(d.topic) {
			name, ok := c.originAt(d, age)
			if !ok {
				continue
			}
			if !looksDead(name) {
				return c.placeAt(d, age, name), d, true
			}
			if second == nil {
				second, secondAge = d, age
			}
		}
	}
	if second == nil {
		return place{}, nil, false
	}
	name, _ := c.originAt(second, secondAge)
	return c.placeAt(second, secondAge, name), second, true
}

// originAt returns the topic that the dialect named at that age, if it can be an
// origin at all.
func (c *decoding) originAt(d *dialect, age int) (string, bool) {
	value := c.h.nth(d.topic, d.occurrence(age, c.h.count(d.topic)))
	if len(value) > maxTopic {
		return "", false
	}
	name := string(value)
	if !c.possible(name) || d.pointers && topicID(name) && !c.exists(name) {
		return "", false
	}
	return name, true
}

// placeAt completes the tuple. Where a header occurs less often than the topic
// nobody can tell which hop it belongs to, and it is left out.
func (c *decoding) placeAt(d *dialect, age int, name string) place {
	count := c.h.count(d.topic)
	n := d.occurrence(age, count)
	aligned := func(key string) []byte {
		if key == "" || c.h.count(key) != count {
			return nil
		}
		return c.h.nth(key, n)
	}
	p := place{
		topic:     name,
		partition: partition(aligned(d.partition)),
		offset:    offset(aligned(d.offset)),
		timestamp: timestamp(aligned(d.timestamp)),
	}
	if d.refinePlace != nil {
		d.refinePlace(c.h, &p)
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
