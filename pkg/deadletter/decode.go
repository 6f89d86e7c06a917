// Package deadletter reads the headers that consumers and frameworks write into dead letters: from a dead letter's
// topic, key and headers it derives where and why the record failed, and which headers a replay must remove. It is
// pure: no Kafka client, no clock, no I/O.
package deadletter

import (
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/deadletter/internal/headervalue"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/fingerprint"
)

// Reading is the decoded dead letter. All texts in a Reading are valid UTF-8 of limited length without NUL.
type Reading struct {
	OriginalTopic string // "" when it is not known
	ErrorMessage  string // never empty: entity.UnknownError when the record contains no error message
	Origin        entity.Origin
	Failure       entity.Failure // its field Dialect is "" when no dialect was recognised

	// Returned contains the values of the dlq- headers, with which dlq-manager marks replays; nil when one of them, except
	// dlq-redriven-at, is malformed, or when the id of the message or of the redrive is missing. RootID and RetryCount
	// are zero when they are missing. Any producer can write the headers, so the caller must check the attempt.
	Returned *Lineage

	// Pointer means that the dead letter names the position of the record that failed but contains no copy of it; see
	// IsPointer.
	Pointer bool
}

// Lineage is the content of the dlq- headers that a replay carries.
type Lineage struct {
	MessageID, RootID, RedriveID uuid.UUID
	RetryCount                   int
}

// Decode reads one record of a dead-letter topic. ts is the timestamp of this record; some dialects preserve it, and
// then it is also the timestamp of the original record. exists reports whether a topic is in the cluster. The function
// exists is called only when no header, or a queue or a topic id in a header, names the original topic; nil means that
// no topic exists. Decode accepts any bytes, never panics, and keeps no reference to rec.
func (d *Decoder) Decode(topic string, rec entity.Record, ts time.Time, exists func(topic string) bool) Reading {
	var room [4]*dialect
	c := decoding{d: d, topic: topic, h: rec.Headers, key: rec.Key, exists: exists}
	return c.read(rec, ts, room[:0])
}

// decoding is the state of one call of Decode. hops are the dialects that match the record; the dialect of the latest
// failure comes first.
type decoding struct {
	d      *Decoder
	topic  string
	h      headers
	key    []byte
	exists func(string) bool
	hops   []*dialect
	root   mention // the header's topic that was chosen as the original topic, with its dialect; the dialect is nil when no header names the topic
	trail  trail
}

// decodingOf returns the state in which the dialects of a record can be recognised.
func (d *Decoder) decodingOf(topic string, rec entity.Record) decoding {
	c := decoding{d: d, topic: topic, h: rec.Headers, key: rec.Key}
	if d.uber.Match(topic) {
		c.h = withUberKey(rec)
	}
	return c
}

func (c *decoding) read(rec entity.Record, ts time.Time, room []*dialect) Reading {
	if c.exists == nil {
		c.exists = func(string) bool { return false }
	}
	if c.d.uber.Match(c.topic) {
		c.h = withUberKey(rec)
	}
	c.hops = c.recognise(room)

	r := Reading{Returned: lineage(rec.Headers), Pointer: IsPointer(rec)}
	f := c.failure()
	r.Failure, r.ErrorMessage = f.Failure, f.message
	if root := fingerprint.RootClass(f.Class, f.StackTrace); root != f.Class {
		r.Failure.Class, c.trail[fieldClass] = headervalue.Text([]byte(root), MaxErrorClass), c.trail[fieldStack]
	}
	if r.ErrorMessage == "" {
		r.ErrorMessage = entity.UnknownError
		c.trail[fieldMessage] = trace{}
	}
	r.OriginalTopic, r.Origin = c.origin(ts)
	r.Failure.ConsumerGroup = c.groupOfOrigin(r.Failure.ConsumerGroup)
	if r.Failure.ConsumerGroup == "" {
		r.Failure.ConsumerGroup = groupFromName(c.topic, r.OriginalTopic)
		if r.Failure.Dialect == kafkajsAsyncRetry.name {
			r.Failure.ConsumerGroup = kafkajsGroup(c.topic)
		}
		c.trail[fieldGroup] = trace{by: entity.ByName}
	}
	return r
}
