package redrive

import (
	"context"
	"errors"
	"slices"

	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/traces"
)

// place is the target of a record; partition -1 means the whole topic, when its partitions are unknown.
type place struct {
	topic     string
	partition int32
}

func placeOf(t entity.Target) place { return place{t.Topic, t.Partition} }

// places tracks the target partitions of a pass. An unreachable partition must not delay the others, nor cost its
// messages their attempts; when none is reachable, the pass ends.
type places struct {
	reached  map[place]bool // their leaders answered when they were last asked
	lost     map[place]bool // waited for once without success
	works    map[place]bool // accepted a record at the last try
	failures map[place]int  // consecutive batches in which every record to it failed
	stranded int            // consecutive batches without a reachable partition
	hopeless int            // consecutive batches without an acknowledgement
}

func newPlaces() places {
	return places{
		reached: map[place]bool{}, lost: map[place]bool{},
		works: map[place]bool{}, failures: map[place]int{},
	}
}

// look records which targets are reachable. It returns unreachable ones that were not waited for yet, an error of
// one, and whether any is reachable.
func (p *places) look(targets []entity.Target) (away []place, some bool, err error) {
	for _, t := range targets {
		at := placeOf(t)
		var refused *entity.RefusedError
		switch {
		case t.Err == nil:
			some, p.reached[at] = true, true
		case errors.As(t.Err, &refused):
		default:
			err = t.Err
			p.forget(at)
			if !p.lost[at] {
				away = append(away, at)
			}
		}
	}
	return away, some, err
}

func (p *places) forget(gone place) {
	delete(p.reached, gone)
	if gone.partition >= 0 {
		return
	}
	for at := range p.reached {
		if at.topic == gone.topic {
			delete(p.reached, at)
		}
	}
}

// strand counts a batch without a reachable place, and reports whether the pass is over: no partition is known after
// waiting, or no reached place is left. forsaken means the latter: the leaders do not answer.
func (p *places) strand(targets []entity.Target, waited bool) (over, forsaken bool) {
	p.stranded++
	partitions := slices.ContainsFunc(targets, func(t entity.Target) bool { return t.Partition >= 0 })
	forsaken = partitions && p.stranded >= strandedLimit && len(p.reached) == 0
	return waited && !partitions || forsaken, forsaken
}

// nowhere reports whether every place that the pass has met is unreachable.
func (p *places) nowhere() bool { return len(p.lost) > 0 && len(p.reached) == 0 }

// shut reports whether nothing may be sent to a place any more in this pass: each try would cost a message an attempt.
func (p *places) shut(at place) bool { return p.failures[at] >= hopeless }

// judge counts how sends ended, and reports whether the pass is over: batches fail, and no place works.
func (p *places) judge(batch []entity.Outgoing, deliveries []entity.Delivery) (over bool) {
	taken, failed := map[place]bool{}, map[place]bool{}
	for i, d := range deliveries {
		at := placeOf(batch[i].Target)
		switch d.Verdict {
		case entity.Failed, entity.InDoubt:
			failed[at] = true
		case entity.GivenBack, entity.Rescued, entity.Abandoned: // not sent, so it proves nothing
		case entity.Acknowledged, entity.Skipped, entity.Rejected, entity.Refused:
			taken[at] = true
		}
	}
	for at := range taken {
		delete(failed, at)
		delete(p.failures, at)
		p.works[at] = true
	}
	for at := range failed {
		p.failures[at]++
		delete(p.works, at)
	}
	switch {
	case len(taken) > 0:
		p.hopeless = 0
	case len(failed) > 0:
		p.hopeless++
	}
	return p.hopeless >= hopeless && len(p.works) == 0
}

// leaveOut ends the waiting for places, for this pass.
func (p *pass) leaveOut(ctx context.Context, away []place) {
	for _, at := range away {
		if p.places.lost[at] {
			continue
		}
		p.places.lost[at] = true
		p.log.Warn("redrive skips a partition without a reachable leader", zap.Stringer("redrive_id", p.id),
			zap.String("topic", at.topic), zap.Int32("partition", at.partition), traces.InLog(ctx))
	}
}
