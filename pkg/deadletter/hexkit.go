package deadletter

import (
	"bytes"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// hexkit is the GHGA library. Its event_id is "service,topic,partition,offset",
// where the service is the consumer group.
var hexkit = dialect{
	name:     "hexkit",
	anchors:  [][]string{{"original_topic", "exc_class"}},
	topic:    "original_topic",
	classes:  []string{"exc_class"},
	messages: []string{"exc_msg"},
	refinePlace: func(h headers, p place) place {
		if id := eventID(h); len(id) == 4 && string(id[1]) == p.topic {
			p.partition, p.offset = partition(id[2]), offset(id[3])
		}
		return p
	},
	refineFailure: func(h headers, f entity.Failure, message string) (entity.Failure, string) {
		if id := eventID(h); len(id) == 4 {
			f.ConsumerGroup = cleanText(id[0], MaxConsumerGroup)
		}
		return f, message
	},
}

// eventID splits off at most one part too many, which makes the id malformed.
func eventID(h headers) [][]byte { return bytes.SplitN(h.last("event_id"), []byte(","), 5) }
