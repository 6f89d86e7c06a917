// Package reach tracks to which partitions a redrive can send.
package reach

import (
	"errors"
	"slices"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/attempt"
)

const (
	// MaxFailedBatches is a number of batches in a row. If all records for one partition fail in that many batches, the
	// pass sends no more to that partition. If that many batches fail and no partition accepts records, the pass ends: the
	// broker counts as unavailable, so that messages keep their attempts.
	MaxFailedBatches = 2

	// MaxUnreachableBatches is the number of batches in a row without a reachable leader after which the pass skips
	// their messages, if it has reached no partition before. It is not small, because dead letters of one partition
	// often follow each other in the selection.
	MaxUnreachableBatches = 20
)

// Reach tracks which target partitions a pass can send to. An unreachable partition must not delay the messages for
// other partitions, and the messages for it must not lose their attempts. When no partition is reachable, the pass
// ends.
type Reach struct {
	reached map[attempt.TopicPartition]bool // partitions whose leaders answered when they were last asked
	// partitions for which the pass has waited; it does not wait for them again
	unreachable map[attempt.TopicPartition]bool
	works       map[attempt.TopicPartition]bool // partitions that accepted a record of the last batch sent to them
	failures    map[attempt.TopicPartition]int  // per partition: batches in a row in which every record failed
	// number of batches in a row for which no target partition was reachable
	unreachableBatches int
	failedBatches      int // number of batches in a row of which the broker accepted no record
}

// New returns a Reach that knows no partition.
func New() Reach {
	return Reach{
		reached: map[attempt.TopicPartition]bool{}, unreachable: map[attempt.TopicPartition]bool{},
		works: map[attempt.TopicPartition]bool{}, failures: map[attempt.TopicPartition]int{},
	}
}

// Update records which targets are reachable. It returns the unreachable partitions that the pass has not waited for
// yet, whether any target is reachable, and the error of an unreachable target.
func (r *Reach) Update(targets []entity.Target) (missing []attempt.TopicPartition, some bool, err error) {
	for _, t := range targets {
		at := attempt.PartitionOf(t)
		var refused *entity.RefusedError
		switch {
		case t.Err == nil:
			some, r.reached[at] = true, true
		case errors.As(t.Err, &refused):
		default:
			err = t.Err
			r.forget(at)
			if !r.unreachable[at] {
				missing = append(missing, at)
			}
		}
	}
	return missing, some, err
}

func (r *Reach) forget(gone attempt.TopicPartition) {
	delete(r.reached, gone)
	if gone.Partition >= 0 {
		return
	}
	for at := range r.reached {
		if at.Topic == gone.Topic {
			delete(r.reached, at)
		}
	}
}

// AddUnreachable counts a batch without a reachable partition, and reports whether the pass is over. The pass is over
// when Kafka has not even returned the partitions of the topics after a wait. It is also over after
// MaxUnreachableBatches batches in a row without a reachable leader, if no partition was reached before. In that case
// noLeaders is true: the cluster answers, but the leaders of the partitions do not.
func (r *Reach) AddUnreachable(targets []entity.Target, waited bool) (over, noLeaders bool) {
	r.unreachableBatches++
	partitions := slices.ContainsFunc(targets, func(t entity.Target) bool { return t.Partition >= 0 })
	noLeaders = partitions && r.unreachableBatches >= MaxUnreachableBatches && len(r.reached) == 0
	return waited && !partitions || noLeaders, noLeaders
}

// Nowhere reports whether the pass has found unreachable partitions and no reachable partition.
func (r *Reach) Nowhere() bool { return len(r.unreachable) > 0 && len(r.reached) == 0 }

// Closed reports whether this pass sends no more records to a partition, because MaxFailedBatches batches in a row have
// failed there and each further failure costs a message an attempt.
func (r *Reach) Closed(at attempt.TopicPartition) bool { return r.failures[at] >= MaxFailedBatches }

// RecordDeliveries counts how sends ended, and reports whether the pass is over because batches fail and no partition
// accepts records.
func (r *Reach) RecordDeliveries(batch []entity.Outgoing, deliveries []entity.Delivery) (over bool) {
	taken, failed := map[attempt.TopicPartition]bool{}, map[attempt.TopicPartition]bool{}
	for i, d := range deliveries {
		at := attempt.PartitionOf(batch[i].Target)
		if d.OfValue { // the target was not asked
			continue
		}
		switch d.Verdict {
		case entity.Failed, entity.InDoubt:
			failed[at] = true
		// no record was sent, so this says nothing about the partition
		case entity.GivenBack, entity.Rescued, entity.Abandoned:
		case entity.Acknowledged, entity.Skipped, entity.Rejected, entity.Refused:
			taken[at] = true
		}
	}
	for at := range taken {
		delete(failed, at)
		delete(r.failures, at)
		r.works[at] = true
	}
	for at := range failed {
		r.failures[at]++
		delete(r.works, at)
	}
	switch {
	case len(taken) > 0:
		r.failedBatches = 0
	case len(failed) > 0:
		r.failedBatches++
	}
	return r.failedBatches >= MaxFailedBatches && len(r.works) == 0
}

// Found notes that a batch has a reachable partition.
func (r *Reach) Found() { r.unreachableBatches = 0 }

// Await reports whether the pass has to wait for a partition, and notes that it has waited.
func (r *Reach) Await(at attempt.TopicPartition) bool {
	if r.unreachable[at] {
		return false
	}
	r.unreachable[at] = true
	return true
}

// Open reports whether the pass has reached a partition, and the last batches have not all failed.
func (r *Reach) Open() bool { return len(r.reached) > 0 && r.failedBatches < MaxFailedBatches }
