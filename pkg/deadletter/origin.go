package deadletter

import (
	"iter"
	"slices"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/deadletter/internal/headervalue"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter/internal/naming"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// place is the position at which a record failed, as the headers of one failure (hop) report it.
type place struct {
	topic     string
	partition *int32
	offset    *int64
	timestamp time.Time
	at        sources
}

// origin decides the original topic. It tries the operators' rules and the rules of the configuration, then a header,
// then the name of the dead-letter topic. Partition and offset are those of a failure whose headers name this topic. If
// no header names a topic, they count for whatever topic is found, also for one that an operator sets later.
func (c *decoding) origin(ts time.Time) (string, entity.Origin) {
	p, found := c.headerPlace(ts)
	o := entity.Origin{Confidence: entity.FromNothing, Timestamp: p.timestamp}
	topic := ""
	if mapped := c.d.Mapped(c.topic); mapped != "" {
		topic, o.Confidence = mapped, entity.FromMapping
		c.trail[fieldTopic] = trace{by: entity.ByMapping}
	} else if found {
		topic, o.Confidence = p.topic, entity.FromHeader
		c.notePlace(p, fieldTopic)
	} else if named := c.named(); named != "" && !saysNoSource(c.h) {
		topic, o.Confidence = named, entity.FromName
		c.trail[fieldTopic] = trace{by: entity.ByName}
	}
	if found && topic == p.topic {
		o.Partition, o.Offset = p.partition, p.offset
		c.notePlace(p, fieldPartition, fieldOffset)
	}
	if !found {
		o.Partition, o.Offset = c.barePosition()
	}
	return topic, o
}

// barePosition returns the position in headers that name no topic: that of the latest failure with a position. It
// returns none if any header names a topic, because the position belongs to that topic.
func (c *decoding) barePosition() (partition *int32, offset *int64) {
	named := func(h entity.Header) bool {
		a, ok := lookUp(h.Key)
		return ok && a.field == fieldTopic && len(h.Value) > 0
	}
	if slices.ContainsFunc(c.h, named) {
		return nil, nil
	}
	all := c.hops
	if len(all) > 0 && all[0].name != genericName {
		if d := generic(c.h); d != nil {
			all = append(slices.Clip(all), d)
		}
	}
	for _, d := range all {
		for _, value := range d.topics(c.h) {
			if len(d.value(fieldTopic, value)) > 0 {
				return nil, nil
			}
		}
	}
	for _, d := range all {
		read := func(of field, key, other string) []byte {
			i := d.latestIndex(c.h, key)
			// with unequal numbers of headers it is not known which of them belong together
			if key == "" || i < 0 || c.h.has(other) && c.h.count(other) != c.h.count(key) {
				return nil
			}
			c.trail[of] = trace{dialect: d, at: int32(i + 1)}
			return d.value(of, c.h[i].Value)
		}
		partition = headervalue.Partition(read(fieldPartition, d.partition, d.offset))
		offset = headervalue.Offset(read(fieldOffset, d.offset, d.partition))
		if partition != nil || offset != nil {
			return partition, offset
		}
	}
	return nil, nil
}

// PositionHolds reports whether the stored partition and offset of a message belong to its original topic. They do
// not when an operator has set another topic than the one that the headers name.
func (d *Decoder) PositionHolds(m *entity.Message) bool {
	if m.Origin.Confidence != entity.FromOperator || m.Record.HeadersOmitted {
		return true
	}
	c := decoding{d: d, topic: m.Source.Topic, h: m.Record.Headers, key: m.Record.Key}
	c.readAgain(m)
	return c.root.dialect == nil || c.root.topic == m.OriginalTopic
}

func (c *decoding) notePlace(p place, fields ...field) {
	for _, of := range fields {
		c.trail[of] = trace{dialect: c.root.dialect, at: p.at[of]}
	}
}

// headerPlace looks for the original topic in the headers. It goes through the dialects, that of the latest failure
// first, and through the topics that each dialect's headers name, the oldest first. It takes the first topic whose name
// is not that of a dead-letter or retry topic; if there is none, it takes the first topic. If no dialect's headers name
// a topic, it tries the generic dialect.
func (c *decoding) headerPlace(ts time.Time) (place, bool) {
	r, ok := c.rootOf(c.hops)
	if !ok && len(c.hops) > 0 && c.hops[0].name != genericName {
		if d := generic(c.h); d != nil {
			r, ok = c.rootOf([]*dialect{d})
		}
	}
	if !ok {
		return place{}, false
	}
	c.root = r
	p := r.dialect.placeAt(c.h, r)
	c.notePlace(p, fieldTimestamp)
	if r.dialect == c.hops[0] && r.dialect.keepsTime && p.timestamp.IsZero() {
		p.timestamp = headervalue.Plausible(ts)
		c.trail[fieldTimestamp] = trace{by: entity.ByRecord, dialect: r.dialect}
	}
	return p, true
}

// mention is one of the topics that the headers of a dialect name. The topic of the oldest failure has the age 0.
type mention struct {
	dialect *dialect
	age     int
	topic   string
}

func (c *decoding) rootOf(hops []*dialect) (mention, bool) {
	var second mention
	for _, d := range hops {
		for age, value := range d.topics(c.h) {
			m := mention{dialect: d, age: age, topic: c.asOrigin(d, d.value(fieldTopic, value))}
			if m.topic == "" {
				continue
			}
			if !naming.LooksDead(m.topic) {
				return m, true
			}
			if second.topic == "" {
				second = m
			}
		}
	}
	return second, second.topic != ""
}

// topics iterates over the topics that the dialect's headers name, from the oldest to the latest. It needs only one
// pass, because hostile records may repeat a header very often.
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

// asOrigin returns the topic that a header's value names, or "" when it cannot be an original topic.
func (c *decoding) asOrigin(d *dialect, value []byte) string {
	if len(value) > entity.MaxTopic {
		return ""
	}
	name := string(value)
	if !c.possible(name) || (d.queues || d.topicIDs && topicID(name)) && !c.exists(name) {
		return ""
	}
	return name
}

// placeAt reads the partition, the offset and the timestamp that belong to the topic m. A header that does not occur as
// often as that of the topic is not read, because it is not clear to which failure it belongs.
func (d *dialect) placeAt(h headers, m mention) place {
	count := h.count(d.topic)
	n := d.occurrence(m.age, count)
	p := place{topic: m.topic}
	aligned := func(of field, key string) []byte {
		if key == "" || h.count(key) != count {
			return nil
		}
		i := h.nthIndex(key, n)
		p.at[of] = int32(i + 1)
		return d.value(of, h[i].Value)
	}
	aligned(fieldTopic, d.topic)
	p.partition = headervalue.Partition(aligned(fieldPartition, d.partition))
	p.offset = headervalue.Offset(aligned(fieldOffset, d.offset))
	p.timestamp = headervalue.Timestamp(aligned(fieldTimestamp, d.timestamp))
	if d.refinePlace != nil {
		return d.refinePlace(h, p)
	}
	return p
}

func (c *decoding) possible(topic string) bool { return c.d.possible(c.topic, topic) }

// suspect reports whether a topic is a dead-letter topic, or has a name like that of a dead-letter or retry topic.
func (c *decoding) suspect(topic string) bool {
	return topic != "" && (topic == c.topic || c.d.patterns.Match(topic) || naming.LooksDead(topic))
}
