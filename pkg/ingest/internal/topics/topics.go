// Package topics finds the dead-letter topics that the ingester reads.
package topics

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
)

// Set contains the topics of a membership in the consumer group, each with its id and its number of partitions. When two
// sets are equal, no new membership is needed.
type Set map[string]Shape

// Shape is the id of a topic and its number of partitions.
type Shape struct {
	ID         string
	Partitions int
}

// Of returns the topics that match the patterns. It leaves out internal topics, and topics that the broker could not
// describe in this answer.
func Of(all []broker.Topic, patterns deadletter.Patterns) Set {
	set := Set{}
	for _, t := range all {
		if t.Internal || t.Err != nil || len(t.Partitions) == 0 || !patterns.Match(t.Name) {
			continue
		}
		set[t.Name] = Shape{ID: t.ID, Partitions: len(t.Partitions)}
	}
	return set
}

// Names returns the first names in alphabetical order, at most as many as limit says, for the log.
func (s Set) Names(limit int) []string {
	names := slices.Sorted(maps.Keys(s))
	return names[:min(limit, len(names))]
}

// Lost reports whether a topic of the set does not exist now, or has another id because it was deleted and created again.
func (s Set) Lost(now Set) bool {
	for name, shape := range s {
		if is, ok := now[name]; !ok || is.ID != shape.ID {
			return true
		}
	}
	return false
}

// Describer describes topics; package broker describes the method.
type Describer interface {
	Topics(ctx context.Context, names ...string) ([]broker.Topic, error)
}

// Described contains the dead-letter topics that this process has read, and false for those that it may not describe any
// more. It is not safe for concurrent use.
type Described map[string]bool

// Hidden returns the topics that this process has read and may not describe any more; fresh are those that it could
// describe at the last call, and reason is the error of one of these. The cluster leaves hidden topics out of the list of
// all topics, as if they were deleted. Hidden returns none when the cluster does not answer.
func (d Described) Hidden(ctx context.Context, cluster Describer, visible Set) (hidden, fresh []string, reason error) {
	var missing []string
	for name := range d {
		if _, ok := visible[name]; !ok {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		topics, err := cluster.Topics(ctx, missing...)
		if err != nil {
			return nil, nil, nil //nolint:nilerr // the caller has just listed the topics; the next call finds out
		}
		for _, t := range topics {
			switch {
			case !errors.Is(t.Err, broker.ErrUnauthorized):
				delete(d, t.Name)
				continue
			case d[t.Name]:
				fresh, reason = append(fresh, t.Name), t.Err
			}
			hidden = append(hidden, t.Name)
			d[t.Name] = false
		}
	}
	for name := range visible {
		d[name] = true
	}
	return hidden, fresh, reason
}
