// Package deadletter reads the headers of dead-letter producers: from a record's topic, key and headers it derives
// where and why the record failed, and which headers a replay must remove. It is pure: no Kafka client, no clock, no
// I/O.
package deadletter

import (
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/deadletter/internal/headervalue"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/fingerprint"
)

// Reading is the decoded dead letter. Every text is bounded valid UTF-8 without NUL; headers keep their bytes.
type Reading struct {
	OriginalTopic string // "" when unknown; never a dead-letter topic
	ErrorMessage  string // never empty: entity.UnknownError when the record has none
	Origin        entity.Origin
	Failure       entity.Failure // Dialect is "" when none was recognised

	// Returned is set for well-formed headers of dlq-manager's own replays. Any producer can write them, so the
	// caller must check the attempt.
	Returned *Lineage

	// Pointer means that the record names the position of the failed record but has no copy of it; see IsPointer.
	Pointer bool
}

// Lineage is the content of the dlq- headers of a replay.
type Lineage struct {
	MessageID, RootID, RedriveID uuid.UUID
	RetryCount                   int
}

// Decode reads one record of a dead-letter topic. ts is the record's timestamp and counts as the original's for
// producers that are known to preserve it. exists reports whether a topic is in the cluster; it is called only when
// no header gives the original topic, and nil means that no topic exists. Decode accepts any bytes, never panics, and
// keeps no reference to rec.
func (d *Decoder) Decode(topic string, rec entity.Record, ts time.Time, exists func(topic string) bool) Reading {
	var room [4]*dialect
	c := decoding{d: d, topic: topic, h: rec.Headers, key: rec.Key, exists: exists}
	return c.read(rec, ts, room[:0])
}

// decoding is one call of Decode. hops are the dialects that the record matches, the latest failure first.
type decoding struct {
	d      *Decoder
	topic  string
	h      headers
	key    []byte
	exists func(string) bool
	hops   []*dialect
	root   mention // the hop from which the origin was read; its dialect is nil when the origin was read from no hop
	trail  trail
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
