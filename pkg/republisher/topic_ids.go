package republisher

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// verifyTopicIDs checks the results for records that were not found. If the topic was deleted and created again, the
// record may have been in the deleted topic, so the result becomes UNKNOWN. It reads the topic ids after the logs were
// read, so it also notices a topic that was created again meanwhile.
func (r *Republisher) verifyTopicIDs(ctx context.Context, claims []entity.Claim, findings []entity.Delivery) {
	names := doubtfulTopics(claims, findings)
	if len(names) == 0 {
		return
	}
	topics, err := r.cluster.Topics(ctx, names...)
	current := make(map[string]broker.Topic, len(topics))
	for _, t := range topics {
		current[t.Name] = t
	}
	for i, c := range claims {
		if !needsTopicID(c, findings[i]) {
			continue
		}
		topic, known := current[c.Topic]
		if !known {
			topic.Err = cmp.Or(err, broker.ErrUnavailable)
		}
		if topic.Err != nil {
			findings[i] = unreadable(c, fmt.Errorf("ask for the topic's id: %w", topic.Err))
		} else if topic.ID != "" && topic.ID != c.TopicID {
			findings[i] = unsettleable(c, errOtherTopic)
		}
	}
}

// needsTopicID reports whether a result is right only if the topic still has the id that the claim recorded. Claims
// without a topic id are not checked.
func needsTopicID(c entity.Claim, d entity.Delivery) bool {
	return c.TopicID != "" && !neverSent(c) && d.Verdict == entity.GivenBack
}

func doubtfulTopics(claims []entity.Claim, findings []entity.Delivery) []string {
	var names []string
	for i, c := range claims {
		if needsTopicID(c, findings[i]) && !slices.Contains(names, c.Topic) {
			names = append(names, c.Topic)
		}
	}
	return names
}
