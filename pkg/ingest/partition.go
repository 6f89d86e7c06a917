package ingest

import (
	"sync/atomic"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/ingest/internal/health"
	"github.com/dlq-manager/dlq-manager/pkg/outage"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// partitionBackoff is the pause of a partition after an error that concerns only this partition.
const partitionBackoff = 5 * time.Second

// reopenBackoff is the pause before a partition is opened again. Without this pause, the ingester would try again and
// again at once while brokers disagree about the partition's leader.
const reopenBackoff = 250 * time.Millisecond

// partition is one partition of a generation. At any time only one goroutine uses a partition: the reader's, a
// fetcher's or an unpacker's. They pass partitions on. While chunks of the partition wait for the writers, topicID and
// ref do not change, so the writers may read these two.
type partition struct {
	broker.TopicPartition
	writer *writer

	opened  bool   // whether topicID, ref and next are set, so that fetchers can read the partition
	topicID string // Kafka's id of the topic; "" when the broker gives topics no ids
	ref     repository.TopicRef
	next    int64

	failures     int // number of requests in a row about this partition that failed
	backoffUntil time.Time

	damage struct { // the last batch that could not be read, by its offset
		at    int64
		times int // number of times that the unreadable batch was fetched
	}

	quota struct {
		pauses health.Pauses // answers to requests that began with this partition, since the position last moved
		outage outage.Log
	}

	guest  *guest      // nil for a partition of the present generation
	fenced atomic.Bool // whether another ingester was seen to move the position since the partition was opened

	waiting atomic.Int64 // number of chunks that were passed to the writers and are not stored yet

	lag lag
}

// guest is the state of a partition of another member, its owner. It is read only while its owner does not read it, for
// example because the owner died.
type guest struct {
	until     time.Time // when the partition is left to its owner for good
	reads     bool      // whether the partition is read
	looked    bool      // whether next and end are set
	next, end int64     // the position, and the log's end, at the last look
}

// guestPause is the pause between two looks whether the owner reads a partition.
const guestPause = time.Second

// look reports whether the partition with the given position and log end is to be read: when records that the last look
// found have not been read since.
func (p *partition) look(next, end int64) bool {
	g := p.guest
	g.reads = g.looked && g.next == next && g.end > next
	if g.looked, g.next, g.end = true, next, end; !g.reads {
		p.backOff(guestPause)
	}
	return g.reads
}

func (p *partition) key() repository.Partition {
	return repository.Partition{Incarnation: p.ref.Incarnation, Partition: p.Partition}
}

// due reports whether the partition may be read; a partition that must be opened again may be read only when all its
// chunks are stored.
func (p *partition) due(now time.Time) bool {
	return !now.Before(p.backoffUntil) && (p.opened || p.waiting.Load() == 0)
}

// backOff pauses the partition for d from now.
func (p *partition) backOff(d time.Duration) { p.backoffUntil = time.Now().Add(d) }

// reopen makes the reader read the partition's topic id and position again, before any more records.
func (p *partition) reopen() { p.opened = false }

// damageTries is the number of times that a damaged batch is fetched. The last of these fetches skips what it cannot
// read; the first ones may show damage that only the network caused.
const damageTries = 3

// damaged returns how many fetches have found that the batch at the position is damaged.
func (p *partition) damaged() int {
	if p.damage.at != p.next {
		return 0
	}
	return p.damage.times
}

// skipUnreadable reports whether the next fetch must skip a damaged batch at the position, because it was fetched often
// enough.
func (p *partition) skipUnreadable() bool { return p.damaged() >= damageTries-1 }
