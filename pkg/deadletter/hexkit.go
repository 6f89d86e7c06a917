package deadletter

import (
	"bytes"
	"strings"

	"github.com/dlq-manager/dlq-manager/pkg/deadletter/internal/headervalue"
)

// hexkit is the dialect of GHGA's library hexkit. Its header named "service" contains the consumer group. The library
// gives the dead letter a new event_id, and saves the event_id of the record that failed in original_event_id. Earlier
// versions wrote "service,topic,partition,offset" into event_id. The first versions wrote neither an event_id nor the
// topic, which is then part of the dead-letter topic's name.
var hexkit = dialect{
	name:     "hexkit",
	anchors:  [][]string{{hexkitTopic, "exc_class"}, {"exc_class", "exc_msg"}},
	topic:    hexkitTopic,
	classes:  []string{"exc_class"},
	messages: []string{"exc_msg"},
	groups:   []string{"service"},
	refinePlace: func(h headers, p place) place {
		if id, at := eventID(h); id != nil && string(id[1]) == p.topic {
			p.partition, p.offset = headervalue.Partition(id[2]), headervalue.Offset(id[3])
			p.at[fieldPartition], p.at[fieldOffset] = at, at
		}
		return p
	},
	refineFailure: func(h headers, f failure) failure {
		if id, at := eventID(h); id != nil {
			f.ConsumerGroup = headervalue.Text(id[0], MaxConsumerGroup)
			f.at[fieldGroup] = at
		}
		return f
	},
}

const (
	hexkitTopic      = "original_topic"
	hexkitEvent      = "event_id"
	hexkitFirstEvent = "original_event_id"
)

// eventID returns the parts of the last event_id, or nil; see eventParts. at is the header's index, counted from 1.
func eventID(h headers) (parts [][]byte, at int32) {
	i := h.lastIndex(hexkitEvent)
	if i < 0 {
		return nil, 0
	}
	return eventParts(h[i].Value), int32(i + 1)
}

// eventParts splits a value of event_id into the four parts that hexkit wrote. It returns nil for any other value, which
// is the application's own.
func eventParts(value []byte) [][]byte {
	parts := bytes.SplitN(value, []byte(","), 5)
	if len(parts) != 4 || !headervalue.Decimal(parts[2]) || !headervalue.Decimal(parts[3]) {
		return nil
	}
	return parts
}

// hexkitRetry reports whether the name of a topic is that of a service's retry topic. Records in such a topic must
// carry the header original_topic.
func hexkitRetry(topic string) bool {
	return strings.HasPrefix(topic, "retry-") || strings.HasSuffix(topic, "-retry")
}
