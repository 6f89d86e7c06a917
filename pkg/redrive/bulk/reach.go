package bulk

import (
	"errors"
	"slices"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/attempt"
)

const (
	// maxFailedBatches is how many batches in a row may fail completely. If they fail at one partition, the pass
	// leaves out that partition; if they fail at every partition, the pass ends. In the second case the broker counts
	// as unavailable, so that messages keep their attempts.
	maxFailedBatches = 2

	// maxUnreachableBatches is how many batches in a row may find no reachable leader while no other partition was
	// reached. It is not small, because dead letters of one partition often arrive one after another.
	maxUnreachableBatches = 20
)

// reach tracks the target partitions of a pass. An unreachable partition must not delay the messages for other
// partitions, nor cost its messages their attempts; when none is reachable, the pass ends.
type reach struct {
	reached            map[attempt.TopicPartition]bool // partitions whose leaders answered when they were last asked
	unreachable        map[attempt.TopicPartition]bool // partitions for which the pass has waited once without success
	works              map[attempt.TopicPartition]bool // partitions that accepted a record at the last try
	failures           map[attempt.TopicPartition]int  // per partition: batches in a row in which every record failed
	unreachableBatches int                             // consecutive batches without a reachable partition
	failedBatches      int                             // consecutive batches without an acknowledgement
}

func newReach() reach {
	return reach{
		reached: map[attempt.TopicPartition]bool{}, unreachable: map[attempt.TopicPartition]bool{},
		works: map[attempt.TopicPartition]bool{}, failures: map[attempt.TopicPartition]int{},
	}
}

// update records which targets are reachable. It returns the unreachable partitions that the pass has not waited for
// yet, the error of one of them, and whether any target is reachable.
func (r *reach) update(targets []entity.Target) (missing []attempt.TopicPartition, some bool, err error) {
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

func (r *reach) forget(gone attempt.TopicPartition) {
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

// addUnreachable counts a batch without a reachable partition, and reports whether the pass is over. The pass is over
// when the partitions are still unknown after waiting, or when many batches in a row have reached no partition. In the
// second case noLeaders is true: the cluster answers, but the leaders of the partitions do not.
func (r *reach) addUnreachable(targets []entity.Target, waited bool) (over, noLeaders bool) {
	r.unreachableBatches++
	partitions := slices.ContainsFunc(targets, func(t entity.Target) bool { return t.Partition >= 0 })
	noLeaders = partitions && r.unreachableBatches >= maxUnreachableBatches && len(r.reached) == 0
	return waited && !partitions || noLeaders, noLeaders
}

// nowhere reports whether every partition that the pass has met is unreachable.
func (r *reach) nowhere() bool { return len(r.unreachable) > 0 && len(r.reached) == 0 }

// closed reports whether this pass may send no more records to a partition, because each further send would cost a
// message an attempt.
func (r *reach) closed(at attempt.TopicPartition) bool { return r.failures[at] >= maxFailedBatches }

// recordDeliveries counts how sends ended, and reports whether the pass is over because batches fail and no partition
// accepts records.
func (r *reach) recordDeliveries(batch []entity.Outgoing, deliveries []entity.Delivery) (over bool) {
	taken, failed := map[attempt.TopicPartition]bool{}, map[attempt.TopicPartition]bool{}
	for i, d := range deliveries {
		at := attempt.PartitionOf(batch[i].Target)
		switch d.Verdict {
		case entity.Failed, entity.InDoubt:
			failed[at] = true
		case entity.GivenBack, entity.Rescued, entity.Abandoned: // nothing was sent, so the partition remains unknown
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
	return r.failedBatches >= maxFailedBatches && len(r.works) == 0
}
