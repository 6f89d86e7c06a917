package republisher

import (
	"context"
	"slices"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

type endFact struct {
	offset int64
	known  bool
	at     time.Time
}

// IngestLag returns, for each dead-letter topic, the number of offsets from the ingester's positions to the ends of the
// logs; some of these offsets may have no record. It leaves out topics with a partition whose end offset is not known;
// it leaves out all topics while other callers ask Kafka for longer than turnTimeout. It takes about three seconds at
// most, and answers are up to five seconds old.
func (r *Republisher) IngestLag(ctx context.Context, positions []repository.IngestPosition) map[string]int64 {
	if !r.facts.acquire(ctx) {
		return map[string]int64{}
	}
	defer r.facts.turn.Release(1)
	r.learnEnds(ctx, positions)
	lags, unknown := map[string]int64{}, map[string]bool{}
	for _, p := range positions {
		end := r.facts.ends[partOf(p)]
		unknown[p.Topic] = unknown[p.Topic] || !end.known
		lags[p.Topic] += max(0, end.offset-p.Next)
	}
	for topic, is := range unknown {
		if is {
			delete(lags, topic)
		}
	}
	return lags
}

// Ends returns the same partitions with the ends of their logs, which it asks Kafka now. When it does not answer for each
// of them, the error is of kind entity.ErrUnavailable.
func (r *Republisher) Ends(ctx context.Context, positions []repository.IngestPosition) ([]repository.IngestPosition, error) {
	parts := make([]broker.TopicPartition, len(positions))
	for i, p := range positions {
		parts[i] = partOf(p)
	}
	offsets, err := r.cluster.EndOffsets(ctx, parts)
	if err != nil {
		return nil, &unavailableError{err}
	}
	ends := slices.Clone(positions)
	for i := range ends {
		ends[i].Next = offsets[parts[i]]
	}
	return ends, nil
}

func partOf(p repository.IngestPosition) broker.TopicPartition {
	return broker.TopicPartition{Topic: p.Topic, Partition: p.Partition}
}

// learnEnds requests the end offsets that the cache lacks, and drops old ones from the cache.
func (r *Republisher) learnEnds(ctx context.Context, positions []repository.IngestPosition) {
	now := r.now()
	for tp, fact := range r.facts.ends {
		if !fresh(fact.at, now) {
			delete(r.facts.ends, tp)
		}
	}
	var open []broker.TopicPartition
	for _, p := range positions {
		tp := partOf(p)
		if _, asked := r.facts.ends[tp]; !asked {
			open = append(open, tp)
			r.facts.ends[tp] = endFact{at: now}
		}
	}
	if len(open) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), inspectTimeout)
	defer cancel()
	ends, _ := r.cluster.EndOffsets(ctx, open) // partitions that Kafka has not answered remain unknown
	for tp, offset := range ends {
		r.facts.ends[tp] = endFact{offset, true, now}
	}
}

// Ends returns no ends, because Kafka is not configured.
func (d *Disabled) Ends(context.Context, []repository.IngestPosition) ([]repository.IngestPosition, error) {
	return nil, nil
}

// IngestLag returns nothing, because Kafka is not configured.
func (d *Disabled) IngestLag(context.Context, []repository.IngestPosition) map[string]int64 {
	return map[string]int64{}
}
