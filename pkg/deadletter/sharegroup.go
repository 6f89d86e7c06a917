package deadletter

import (
	"encoding/base64"
	"slices"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// shareGroup is the dialect of the broker, which writes the dead letters of share groups. The broker never copies
// headers of the record into its dead letter, and copies key and value only if the configuration says so.
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

// IsPointer reports whether the dead letter only names the position of the record that failed. When the broker does not
// copy a record, it writes a null key and a null value. A dead letter that is only a pointer must not be replayed as a
// tombstone, which would delete a value. A copied tombstone has a key, so it is no pointer. A completed dead letter
// contains the record that failed, so it is no pointer either.
func IsPointer(rec entity.Record) bool {
	return !rec.Completed && rec.Key == nil && rec.KeyOmitted == 0 && rec.Value == nil && rec.State == entity.ValueStored &&
		headers(rec.Headers).has(shareGroup.topic)
}

// IsShareGroup reports whether the message is the dead letter of a share group, as its dialect says.
func IsShareGroup(m *entity.Message) bool { return m.Failure.Dialect == shareGroup.name }

// topicID reports whether a name has the form of a topic's id, which the broker writes when it cannot find the topic's
// name.
func topicID(name string) bool {
	b, err := base64.RawURLEncoding.Strict().DecodeString(name)
	return err == nil && len(b) == 16
}

// PointsToOrigin reports whether the message names the partition and the offset of the record that failed, and these
// belong to the message's original topic: the dead letter of the share group names this topic, and no operator has set
// another one.
func PointsToOrigin(m *entity.Message) bool {
	return m.Origin.Partition != nil && m.Origin.Offset != nil && slices.ContainsFunc(m.Record.Headers, func(h entity.Header) bool {
		return h.Key == shareGroup.topic && string(h.Value) == m.OriginalTopic
	})
}

// clockSkew is the time by which the timestamp of a record may be later than that of its dead letter, because clocks
// differ.
const clockSkew = time.Minute

// IsLaterRecord reports whether a record is so much later than a dead letter that the dead letter cannot point to it.
// The parameter written is the record's timestamp; dead is the time of the dead letter. A later record is found when
// the topic was deleted and created again. When dead is the zero time, the result is false.
func IsLaterRecord(written, dead time.Time) bool {
	return !dead.IsZero() && written.After(dead.Add(clockSkew))
}

// ReturnOf returns the attempt that the dlq- headers of a record name; nil when they name none.
func ReturnOf(list []entity.Header) *entity.Return {
	found := lineage(list)
	if found == nil {
		return nil
	}
	return &entity.Return{Parent: found.MessageID, Attempt: found.RedriveID}
}
