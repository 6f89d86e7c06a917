package republisher

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// checkLives invalidates a missing record in a topic that was deleted and created again. It reads the topic ids after
// the logs, so that a change in between is noticed too.
func (r *Republisher) checkLives(ctx context.Context, claims []entity.Claim, findings []entity.Delivery) {
	names := doubtfulTopics(claims, findings)
	if len(names) == 0 {
		return
	}
	topics, err := r.cluster.Topics(ctx, names...)
	lives := make(map[string]broker.Topic, len(topics))
	for _, t := range topics {
		lives[t.Name] = t
	}
	for i, c := range claims {
		if !needsLife(c, findings[i]) {
			continue
		}
		life, known := lives[c.Topic]
		if !known {
			life.Err = cmp.Or(err, broker.ErrUnavailable)
		}
		if life.Err != nil {
			findings[i] = unreadable(c, fmt.Errorf("ask for the topic's id: %w", life.Err))
		} else if life.ID != "" && life.ID != c.TopicID {
			findings[i] = unsettleable(c, errOtherTopic)
		}
	}
}

// needsLife reports whether a finding is valid only if the topic id is unchanged. Claims without an id are not checked.
func needsLife(c entity.Claim, d entity.Delivery) bool {
	return c.TopicID != "" && !neverSent(c) && d.Verdict == entity.GivenBack
}

func doubtfulTopics(claims []entity.Claim, findings []entity.Delivery) []string {
	var names []string
	for i, c := range claims {
		if needsLife(c, findings[i]) && !slices.Contains(names, c.Topic) {
			names = append(names, c.Topic)
		}
	}
	return names
}
