package telemetry

import (
	"slices"
	"sync"
)

// MaxTopicLabels is the maximum number of topics that are labels in the metrics of one process. All further topics
// share the label OtherTopics.
const MaxTopicLabels = 1000

// OtherTopics is the label value that stands for all topics without a label of their own.
const OtherTopics = "other"

// TopicLabels decides which topics become labels in metrics: only topics that exist in the cluster, and at most
// MaxTopicLabels of them. Without these limits, producers could create any number of time series by writing names of
// topics into records. It is safe for concurrent use.
type TopicLabels struct {
	mu     sync.Mutex
	exists map[string]bool
	any    bool
	given  map[string]bool
}

// NewTopicLabels returns TopicLabels that know no topic.
func NewTopicLabels() *TopicLabels { return &TopicLabels{given: map[string]bool{}} }

// SetTopics sets the existing topics. Call it whenever the cluster has answered; while the cluster is unavailable the
// last answer stays valid.
func (l *TopicLabels) SetTopics(names []string) {
	exists := make(map[string]bool, len(names))
	for _, name := range names {
		exists[name] = true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.exists = exists
}

// SetAny allows every topic as a label, for programs that do not connect to a cluster.
func (l *TopicLabels) SetAny() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.any = true
}

// Topics returns the existing topics, sorted; nil when every topic may be a label.
func (l *TopicLabels) Topics() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.any {
		return nil
	}
	names := make([]string, 0, len(l.exists))
	for name := range l.exists {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Label returns the topic when it may be a label, otherwise OtherTopics. The empty topic, which means an unknown
// origin, is always a label.
func (l *TopicLabels) Label(topic string) string {
	if topic == "" {
		return ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !l.any && !l.exists[topic]:
		return OtherTopics
	case l.given[topic]:
		return topic
	case len(l.given) >= MaxTopicLabels:
		return OtherTopics
	}
	l.given[topic] = true
	return topic
}
