package telemetry

import (
	"slices"
	"sync"
)

// MaxTopicLabels is how many topics metrics of one process name at most.
const MaxTopicLabels = 1000

// OtherTopics is the label of topics that metrics do not name.
const OtherTopics = "other"

// TopicLabels decides which topics metrics name: those that exist in the cluster, at
// most MaxTopicLabels. Names in records are text that anyone may write, and each name
// would be a time series. It is safe for concurrent use.
type TopicLabels struct {
	mu     sync.Mutex
	exists map[string]bool
	any    bool
	given  map[string]bool
}

// NewTopicLabels returns labels that know no topic yet.
func NewTopicLabels() *TopicLabels { return &TopicLabels{given: map[string]bool{}} }

// SetTopics says which topics exist. It is to be called whenever the cluster has
// answered; while the cluster is away the last answer holds.
func (l *TopicLabels) SetTopics(names []string) {
	exists := make(map[string]bool, len(names))
	for _, name := range names {
		exists[name] = true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.exists = exists
}

// SetAny lets every topic have a label, for programs without a cluster.
func (l *TopicLabels) SetAny() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.any = true
}

// Topics are the topics that exist; nil when every topic may have a label.
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

// Label returns the topic when metrics name it, OtherTopics when they do not. The empty
// topic, which stands for an unknown origin, is always named.
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
