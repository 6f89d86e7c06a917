package bulk

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// boundedPart is how many messages of a bounded redrive are loaded together: few, because the bound may be reached.
const boundedPart = 100

// errWithheld ends a pass in which too many batches have messages that wait.
var errWithheld = errors.New("messages wait for outcomes or for their targets")

// partOf returns the ids to load next.
func partOf(r entity.Redrive, topic string, ids []uuid.UUID) []uuid.UUID {
	if r.Bounded && topic != "" {
		return ids[:min(len(ids), boundedPart)]
	}
	return ids
}

// withinBounds returns the planned messages that the bounds of their target topics allow to be sent. The others are
// withheld.
func (p *pass) withinBounds(ctx context.Context, l *lease, planned []entity.Outgoing) ([]entity.Outgoing, error) {
	if !p.redrive.Bounded || len(planned) == 0 {
		return planned, nil
	}
	wanted := map[string]int{}
	for _, out := range planned {
		wanted[out.Target.Topic]++
	}
	for _, topic := range slices.Sorted(maps.Keys(wanted)) {
		n, err := p.deps.selected.Admit(ctx, l.held(), topic, wanted[topic], max(1, p.redrive.Options.MinSample))
		if err != nil {
			return nil, fmt.Errorf("admit messages: %w", err)
		}
		wanted[topic] = n
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	admitted := planned[:0]
	for i := range planned {
		out := planned[i]
		if out.Message.Source.Topic != "" {
			p.run.sources[out.Message.Source.Topic] = true
		}
		if wanted[out.Target.Topic]--; wanted[out.Target.Topic] >= 0 {
			admitted = append(admitted, out)
			continue
		}
		p.run.targets[out.Message.OriginalTopic] = out.Target.Topic
		p.withhold(l, &out.Message)
	}
	return admitted, nil
}

// withhold leaves a message without a result until another pass. The caller holds p.mu. Batches of its topic are leased
// no more in this pass. With an order of keys, neither are those of several topics, because one of them may have the
// next message of the same key.
func (p *pass) withhold(l *lease, m *entity.Message) {
	l.items.markWithheld()
	p.run.keys.hold(*m, l.items.numbers[m.ID])
	if l.batch.Topic != "" || p.redrive.Options.KeepKeyOrder {
		p.without.add(l.batch.Topic)
	}
}

// awaitTarget reports whether messages of an original topic whose target does not exist must wait, because Kafka's
// answer may be out of date: the topic may be made again at this moment. The caller holds p.mu.
func (p *pass) awaitTarget(original string) bool {
	since, known := p.run.gone[original]
	if !known {
		since = time.Now()
		p.run.gone[original] = since
	}
	p.held[original] = time.Since(since) < p.deps.cfg.MetadataGrace
	return p.held[original]
}

// missedTarget reports whether an attempt ended because its target did not exist.
func missedTarget(v entity.Verdict, c entity.ErrorClass) bool {
	return v == entity.Refused && c == entity.UnknownTopic
}

// awaitRefused withholds a message that the broker refused because its target does not exist, if it must wait.
func (p *pass) awaitRefused(l *lease, m *entity.Message) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.awaitTarget(m.OriginalTopic) {
		return false
	}
	p.withhold(l, m)
	return true
}
