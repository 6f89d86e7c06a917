package ingest

import (
	"sync/atomic"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// partitionBackoff is the pause of a partition after an error of its own.
const partitionBackoff = 5 * time.Second

// reopenBackoff is the pause before a partition is opened again; it prevents a tight loop while brokers disagree.
const reopenBackoff = 250 * time.Millisecond

// partition is one assigned partition. It belongs to one goroutine at a time, the reader's or a fetcher's, and passes
// over channels. While chunks of the partition wait for the writers, the writers may read its fields, because nothing
// changes them then.
type partition struct {
	broker.TopicPartition
	writer *writer

	opened  bool   // the fields below are known
	topicID string // Kafka's id of the topic; "" where the broker has none
	ref     repository.TopicRef
	next    int64

	failures     int // answers in a row that its leader failed to give
	backoffUntil time.Time

	damage struct { // the last batch that could not be read
		at    int64
		times int // how often that batch was fetched
	}

	waiting atomic.Int64 // chunks that were passed to the writers and are not stored yet

	lag lag
}

func (p *partition) key() repository.Partition {
	return repository.Partition{Incarnation: p.ref.Incarnation, Partition: p.Partition}
}

// due reports whether the partition may be read; a partition that must be opened again may be read only after its last
// chunks were stored.
func (p *partition) due(now time.Time) bool {
	return !now.Before(p.backoffUntil) && (p.opened || p.waiting.Load() == 0)
}

// backOff pauses the partition for d from now.
func (p *partition) backOff(d time.Duration) { p.backoffUntil = time.Now().Add(d) }

// reopen makes the reader read the partition's topic id and position again.
func (p *partition) reopen() { p.opened = false }

// damageTries is how often a damaged batch is fetched before it is skipped, because the network may have caused the
// damage.
const damageTries = 3

// damaged counts and returns how often the batch at the position was found damaged.
func (p *partition) damaged() int {
	if p.damage.at != p.next {
		return 0
	}
	return p.damage.times
}

// skipUnreadable reports whether the damaged batch at the position is to be skipped.
func (p *partition) skipUnreadable() bool { return p.damaged() >= damageTries-1 }
