package deadletter

import (
	"encoding/base64"
	"slices"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// shareGroup is written by the broker, without the source's headers, and with key and value only if configured.
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

// IsPointer reports whether the record only names its original's position: a share group that does not copy records
// writes a null key and a null value. Such a record is not a tombstone, and must not be replayed as a tombstone, which
// would delete a value. A tombstone that was copied still has its key. A completed record is
// the original record.
func IsPointer(rec entity.Record) bool {
	return !rec.Completed && rec.Key == nil && rec.KeyOmitted == 0 && rec.Value == nil && rec.State == entity.ValueStored &&
		headers(rec.Headers).has(shareGroup.topic)
}

// IsShareGroup reports whether a message was read as a share group's dead letter.
func IsShareGroup(m *entity.Message) bool { return m.Failure.Dialect == shareGroup.name }

// topicID reports whether a name is a topic's id, which the broker writes if it cannot find the topic's name.
func topicID(name string) bool {
	b, err := base64.RawURLEncoding.Strict().DecodeString(name)
	return err == nil && len(b) == 16
}

// NamesOrigin reports whether a share group's dead letter names the message's original topic itself: partition and
// offset belong to that topic only.
func NamesOrigin(m *entity.Message) bool {
	return slices.ContainsFunc(m.Record.Headers, func(h entity.Header) bool {
		return h.Key == shareGroup.topic && string(h.Value) == m.OriginalTopic
	})
}

// ReturnOf returns the attempt that the dlq- headers of a record name; nil when there is none.
func ReturnOf(list []entity.Header) *entity.Return {
	found := lineage(list)
	if found == nil {
		return nil
	}
	return &entity.Return{Parent: found.MessageID, Attempt: found.RedriveID}
}
