package deadletter

import (
	"strings"

	"github.com/dlq-manager/dlq-manager/pkg/deadletter/internal/headervalue"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter/internal/naming"
)

// named returns the original topic that the name of the dead-letter topic stands for, if exactly one of the possible
// topics is in the cluster; otherwise it returns "".
func (c *decoding) named() string {
	found := ""
	for _, g := range naming.Guesses(c.topic) {
		if g.Topic == found || !c.possible(g.Topic) || naming.LooksDead(g.Topic) || !c.exists(g.Topic) {
			continue
		}
		if found != "" {
			return ""
		}
		found = g.Topic
	}
	return found
}

// groupFromName returns the consumer group that the name of the dead-letter topic contains in addition to the original
// topic.
func groupFromName(deadLetter, original string) string {
	if original == "" || !strings.Contains(deadLetter, original) || len(deadLetter) <= len(original) {
		return ""
	}
	for _, g := range naming.Guesses(deadLetter) {
		if g.Topic == original && g.Group != "" && len(g.Group) <= MaxConsumerGroup {
			return headervalue.Text([]byte(g.Group), MaxConsumerGroup)
		}
	}
	return ""
}
