// Package deadletter reads what dead-letter producers write: from a record's
// topic, key and headers it learns where the record failed and why, and which
// headers a replay must leave behind. It is pure: no Kafka client, no clock, no
// I/O; fetching, storing and publishing are left to others.
package deadletter

import (
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Reading is what a dead letter says about itself. Every text is valid UTF-8
// without NUL and bounded (see the Max constants), so any store can keep it;
// the headers keep the bytes as they were.
type Reading struct {
	OriginalTopic string // "" when unknown; never a dead-letter topic
	ErrorMessage  string // never empty: entity.UnknownError when nobody said
	Origin        entity.Origin
	Failure       entity.Failure // Dialect is "" when none was recognised

	// Returned is set when the record carries well-formed headers of one of our
	// own replays. Anybody can write them: the caller must look up the attempt.
	Returned *Lineage

	// Pointer: the record names its original but does not carry it; see IsPointer.
	Pointer bool
}

// Decoder reads dead letters. It never changes after New and is safe for
// concurrent use.
type Decoder struct {
	patterns Patterns
	rules    []mapping
	words    map[string]dialectSet
}

// New returns a decoder. Patterns say which topics are dead-letter topics: such
// a topic is never an origin. Rules are tried in order. Errors name every rule
// that is wrong and are of kind entity.ErrInvalid.
func New(patterns Patterns, rules []MapRule) (*Decoder, error) {
	mappings, err := compileRules(rules)
	errs := []error{err}
	for _, m := range mappings {
		if name, constant := m.constant(); constant && patterns.Match(name) {
			errs = append(errs, ruleError(m.index, "original", "is itself a dead-letter topic"))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &Decoder{patterns: patterns, rules: mappings, words: vocabulary()}, nil
}

// Decode reads one record of a dead-letter topic. ts is the record's timestamp
// and counts as the original's for producers that are known to preserve it.
// exists reports whether a topic is in the cluster; it is asked only when no
// header settles the matter, and nil means that nothing exists. Decode accepts any
// bytes, never panics, and keeps no reference to rec.
func (d *Decoder) Decode(topic string, rec entity.Record, ts time.Time, exists func(topic string) bool) Reading {
	if exists == nil {
		exists = func(string) bool { return false }
	}
	var room [4]*dialect
	c := decoding{d: d, topic: topic, h: rec.Headers, exists: exists}
	c.hops = c.recognise(room[:0])

	r := Reading{Returned: lineage(c.h), Pointer: IsPointer(rec)}
	r.Failure, r.ErrorMessage = c.failure()
	r.OriginalTopic, r.Origin = c.origin(ts)
	if r.Failure.ConsumerGroup == "" {
		r.Failure.ConsumerGroup = groupFromName(topic, r.OriginalTopic)
	}
	return r
}

// Lineage is what a replay of ours wrote into the record's headers.
type Lineage struct {
	MessageID, RootID, RedriveID uuid.UUID
	RetryCount                   int
}

// decoding is one call of Decode. hops are the dialects that claim the record,
// the latest failure first.
type decoding struct {
	d      *Decoder
	topic  string
	h      headers
	exists func(string) bool
	hops   []*dialect
}

// failure is what the latest hop said. The plain header "error" speaks when the
// dialect is silent.
func (c *decoding) failure() (entity.Failure, string) {
	var f entity.Failure
	var message string
	if len(c.hops) > 0 {
		f, message = c.hops[0].failure(c.h)
	}
	if message == "" {
		message = cleanText(c.h.last("error"), MaxErrorMessage)
	}
	if message == "" {
		message = entity.UnknownError
	}
	return f, message
}
