package deadletter

import "github.com/dlq-manager/dlq-manager/pkg/entity"

const maxTopic = entity.MaxTopic

// ValidTopic reports whether Kafka would allow the name.
func ValidTopic(name string) bool { return entity.ValidTopic(name) }
