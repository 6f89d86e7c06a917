package republisher

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// verifyTopicIDs changes the result for a record that was not found if its topic was deleted and created again,
// because the record may have been in the deleted topic. It reads the topic ids after the logs, so that it also
// notices a topic that was created again in between.
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

// needsTopicID reports whether a finding is valid only if the topic id is unchanged. Claims without an id are not
// checked.
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
