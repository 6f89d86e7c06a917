package deadletter

import (
	"encoding/base64"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// shareGroup is written by the broker for share groups. Headers of the source are
// never copied, key and value only when the group is configured so.
var shareGroup = dialect{
	name:      "sharegroup",
	anchors:   [][]string{{"__dlq.errors.topic"}},
	topic:     "__dlq.errors.topic",
	partition: "__dlq.errors.partition",
	offset:    "__dlq.errors.offset",
	messages:  []string{"__dlq.errors.message"},
	groups:    []string{"__dlq.errors.group"},
	attempts:  []string{"__dlq.errors.delivery.count"},
	topicIDs:  true,
}

// IsPointer reports whether the record only says where its original stands: a share
// group that does not copy records writes null key and null value. That is no
// tombstone, and replayed as one it would delete. A copied tombstone has its key.
func IsPointer(rec entity.Record) bool {
	return rec.Key == nil && rec.KeyOmitted == 0 && rec.Value == nil && rec.State == entity.ValueStored &&
		headers(rec.Headers).has(shareGroup.topic)
}

// topicID reports whether a name has the form of a topic's id, which the broker
// writes when it cannot find the name. It would pass for a name.
func topicID(name string) bool {
	b, err := base64.RawURLEncoding.Strict().DecodeString(name)
	return err == nil && len(b) == 16
}
