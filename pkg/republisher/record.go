package republisher

import (
	"crypto/sha256"
	"encoding/binary"
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// redrivenAt is RFC 3339 with milliseconds.
const redrivenAt = "2006-01-02T15:04:05.000Z07:00"

// ownHeaders is the number of headers that a replay adds.
const ownHeaders = 5

// headers returns the record's own headers in order, without those of its dead-letter producer, followed by the
// headers of the replay.
func (r *Republisher) headers(m *entity.Message, target string, record []entity.Header, now time.Time) []entity.Header {
	out := slices.Grow(r.decoder.Strip(m, target, record), ownHeaders)
	root := m.Root
	if root == uuid.Nil {
		root = m.ID
	}
	add := func(key, value string) { out = append(out, entity.Header{Key: key, Value: []byte(value)}) }
	add(deadletter.HeaderMessageID, m.ID.String())
	add(deadletter.HeaderRootID, root.String())
	add(deadletter.HeaderRetryCount, strconv.Itoa(m.RetryCount))
	add(deadletter.HeaderRedriveID, m.Claim.ID.String())
	add(deadletter.HeaderRedrivenAt, now.UTC().Format(redrivenAt))
	return out
}

// key returns the key of the record that an attempt sends. The parameter attempt is the number of that attempt, source
// is the record that the message was stored from or points to. Calls for the same attempt return the same key, because
// the claim stores the partition, which depends on the key, before the record is sent. A key in an edit takes
// precedence over republish_key.
func (r *Republisher) key(out *entity.Outgoing, source entity.Record, attempt int) []byte {
	switch {
	case out.Edit != nil && out.Edit.SetKey:
		return out.Edit.Key
	case r.cfg.RepublishKey == KeyUUID:
		return r.uuidKey(out.Message.ID, attempt)
	default:
		return deadletter.ReplayKey(out.Message.Failure.Dialect, source)
	}
}

// uuidKey returns a UUID v4 for one attempt. It cannot be predicted outside this process, whose salt is secret.
func (r *Republisher) uuidKey(message uuid.UUID, attempt int) []byte {
	seed := append(r.salt[:len(r.salt):len(r.salt)], message[:]...)
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(seed, uint64(attempt)))
	id := uuid.UUID(sum[:16])
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return []byte(id.String())
}

// partition chooses one of n partitions: the original partition if it still exists and belongs to the original topic,
// else the partition that Java's default partitioner chooses for the key. For a new key or another topic it ignores
// the original partition. When that is not used, messages without a key are spread over all partitions.
func (r *Republisher) partition(out *entity.Outgoing, key []byte, n int) int32 {
	m := &out.Message
	kept := r.cfg.RepublishKey == KeyOriginal && !elsewhere(out) && (out.Edit == nil || !out.Edit.SetKey)
	if original := m.Origin.Partition; kept && original != nil && *original >= 0 && int(*original) < n && r.decoder.PositionHolds(m) {
		return *original
	}
	if key != nil {
		return broker.Murmur2Partition(key, n)
	}
	spread := fnv.New32a()
	spread.Write(m.ID[:])
	return int32(spread.Sum32() % uint32(n))
}

// record returns the record to send for a claimed message; source is the record that the message was stored from or
// points to.
func (r *Republisher) record(out *entity.Outgoing, source entity.Record) broker.Record {
	sent := out.Edit.Apply(source)
	m := &out.Message
	if !m.Record.KeepsHeaders() { // only the record in Kafka has all headers
		whole := *m
		whole.Record, m = source, &whole
	}
	return broker.Record{
		Key:     r.key(out, source, out.Message.RetryCount),
		Value:   sent.Value,
		Headers: r.headers(m, out.Target.Topic, sent.Headers, r.now()),
	}
}

// topicOf returns the topic to which a message is to be sent: the topic of its edit, else the topic of the redirect,
// else its original topic.
func topicOf(out *entity.Outgoing) string {
	switch {
	case retargeted(out):
		return out.Edit.Topic
	case out.Redirect != "":
		return out.Redirect
	}
	return out.Message.OriginalTopic
}

// elsewhere reports whether the message is sent to a topic other than its original one.
func elsewhere(out *entity.Outgoing) bool { return topicOf(out) != out.Message.OriginalTopic }

// retargeted reports whether an edit sends the message to a topic other than its original one.
func retargeted(out *entity.Outgoing) bool {
	return out.Edit != nil && out.Edit.Topic != "" && out.Edit.Topic != out.Message.OriginalTopic
}
