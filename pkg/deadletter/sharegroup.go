package deadletter

import (
	"encoding/base64"
	"slices"
	"time"

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

// PointsToOrigin reports whether the message has the partition and the offset of its record, and they belong to the
// message's original topic: the share group's dead letter names this topic, and no operator has set another one.
func PointsToOrigin(m *entity.Message) bool {
	return m.Origin.Partition != nil && m.Origin.Offset != nil && slices.ContainsFunc(m.Record.Headers, func(h entity.Header) bool {
		return h.Key == shareGroup.topic && string(h.Value) == m.OriginalTopic
	})
}

// clockSkew is how much later than its dead letter a record's timestamp may be, because clocks differ.
const clockSkew = time.Minute

// IsLaterRecord reports whether a record with the timestamp written is another record than the one to which a dead
// letter of the time dead points: the topic was deleted and created again. A zero dead is not known.
func IsLaterRecord(written, dead time.Time) bool {
	return !dead.IsZero() && written.After(dead.Add(clockSkew))
}

// ReturnOf returns the attempt that the dlq- headers of a record name; nil when there is none.
func ReturnOf(list []entity.Header) *entity.Return {
	found := lineage(list)
	if found == nil {
		return nil
	}
	return &entity.Return{Parent: found.MessageID, Attempt: found.RedriveID}
}
