package ingest

import (
	"sync/atomic"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// partitionRest is how long a partition with an error of its own is left alone.
const partitionRest = 5 * time.Second

// reopenRest keeps brokers that disagree from being asked in a tight loop.
const reopenRest = 250 * time.Millisecond

// partition is one assigned partition. It belongs to one goroutine at a time, the reader's or a fetcher's, and
// passes over channels. Writers only read it while they hold its chunks, when nothing changes.
type partition struct {
	broker.TopicPartition
	writer *writer

	opened  bool   // what follows is known
	topicID string // Kafka's; "" where the broker gives none
	ref     repository.TopicRef
	next    int64

	failures  int // in a row, of whoever should have answered for it
	restUntil time.Time

	damage struct { // the last batch that could not be read
		at    int64
		times int // that it was fetched
	}

	waiting atomic.Int64 // chunks that are handed on and not stored yet

	lag lag
}

func (p *partition) key() repository.Partition {
	return repository.Partition{Incarnation: p.ref.Incarnation, Partition: p.Partition}
}

// due reports whether the partition may be read; one to open again waits until its last chunks are stored.
func (p *partition) due(now time.Time) bool {
	return !now.Before(p.restUntil) && (p.opened || p.waiting.Load() == 0)
}

// rest leaves the partition alone for d from now.
func (p *partition) rest(d time.Duration) { p.restUntil = time.Now().Add(d) }

// reopen has the partition's life and position looked up again.
func (p *partition) reopen() { p.opened = false }

// damageTries is how often a damaged batch is fetched before it is given up: the damage may be the network's.
const damageTries = 3

// damaged says how often the batch at the position was fetched and found damaged.
func (p *partition) damaged() int {
	if p.damage.at != p.next {
		return 0
	}
	return p.damage.times
}

// givenUp reports whether what is damaged at the position is to be passed over.
func (p *partition) givenUp() bool { return p.damaged() >= damageTries-1 }
