package deadletter

import (
	"slices"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/deadletter/internal/headervalue"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// MaxHops is the maximum number of a record's failures (hops) in an explanation; the oldest ones are kept.
const MaxHops = 64

// trace says from where one value was read. For a value from a header, the field at is the header's index, counted from
// 1. For any other value, the field by names the kind of its source. The zero value means that there is no source.
type trace struct {
	dialect *dialect // dialect that reads the header; nil when the value comes from no dialect
	at      int32
	by      entity.DerivedFrom
}

// trail says for every field from where its value was read.
type trail [fieldCount]trace

// Explain returns, for each value that Decode reads from the same record with the same arguments, the source of the
// value.
func (d *Decoder) Explain(topic string, rec entity.Record, ts time.Time, exists func(topic string) bool) entity.Explanation {
	c := decoding{d: d, topic: topic, h: rec.Headers, key: rec.Key, exists: exists}
	r := c.read(rec, ts, nil)
	own := len(rec.Headers)
	say := func(f field, known bool) entity.Derived { return c.derived(f, known, own) }
	return entity.Explanation{
		OriginalTopic:     say(fieldTopic, r.OriginalTopic != ""),
		OriginalPartition: say(fieldPartition, r.Origin.Partition != nil),
		OriginalOffset:    say(fieldOffset, r.Origin.Offset != nil),
		OriginalTimestamp: say(fieldTimestamp, !r.Origin.Timestamp.IsZero()),
		ErrorMessage:      say(fieldMessage, c.trail[fieldMessage] != trace{}),
		ErrorClass:        say(fieldClass, r.Failure.Class != ""),
		StackTrace:        say(fieldStack, r.Failure.StackTrace != ""),
		ConsumerGroup:     say(fieldGroup, r.Failure.ConsumerGroup != ""),
		ConsumerAttempts:  say(fieldAttempts, r.Failure.Attempts != nil),
		Hops:              c.tellHops(),
	}
}

// derived converts the trace of the field f to an entity.Derived. The parameter own is the number of the record's own
// headers; a higher index means a header that was made from the record's key.
func (c *decoding) derived(f field, known bool, own int) entity.Derived {
	t := c.trail[f]
	if !known || t == (trace{}) {
		return entity.NotDerived()
	}
	var out entity.Derived
	if t.dialect != nil {
		out.Dialect = t.dialect.name
	}
	out.Source, out.Confidence = t.by, entity.CertaintyHigh
	switch {
	case t.by == entity.ByName:
		out.Confidence = entity.CertaintyLow
	case t.by != "":
	case t.at == 0:
		return entity.NotDerived()
	case int(t.at) > own:
		out.Source = entity.ByRecord
	default:
		out.Source = entity.ByHeader
		out.Header, out.Occurrence = c.header(t.at)
		if t.dialect == nil || t.dialect.name == genericName || f == fieldGroup && t.dialect.name == connect.name {
			out.Confidence = entity.CertaintyMedium
		} else if t.dialect.byCompanions() {
			out.Source, out.Confidence = entity.ByCompanion, entity.CertaintyMedium
		}
	}
	return out
}

// header returns the name of the header with the given index, which is counted from 1, and its index among the headers
// of that name.
func (c *decoding) header(at int32) (name string, occurrence int) {
	i := int(at) - 1
	name = c.h[i].Key
	return name, c.h[:i].count(name)
}

// tellHops returns the failures (hops) that the headers of all dialects report, from the first to the latest. It
// includes failures without a topic.
func (c *decoding) tellHops() []entity.Hop {
	told := slices.Clone(c.hops)
	if d := c.root.dialect; d != nil && !slices.Contains(told, d) {
		told = append(told, d)
	}
	slices.Reverse(told)
	var hops []entity.Hop
	for _, d := range told {
		named := false
		for age, value := range d.topics(c.h) {
			if len(hops) == MaxHops {
				return hops
			}
			p := d.placeAt(c.h, mention{dialect: d, age: age, topic: headervalue.Text(d.value(fieldTopic, value), entity.MaxTopic)})
			hops = append(hops, entity.Hop{Dialect: d.name, Topic: p.topic, Partition: p.partition, Offset: p.offset})
			named = true
		}
		if !named && len(hops) < MaxHops {
			hops = append(hops, entity.Hop{Dialect: d.name})
		}
	}
	return hops
}
