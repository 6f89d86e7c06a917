package republisher

import (
	"crypto/sha256"
	"encoding/binary"
	"hash/fnv"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// redrivenAt is RFC 3339 with milliseconds.
const redrivenAt = "2006-01-02T15:04:05.000Z07:00"

// headers are those of the record, in their order and without what its
// dead-letter producer wrote, and then ours.
func headers(m entity.Message, now time.Time) []broker.Header {
	kept := deadletter.Strip(m.Failure.Dialect, m.Record.Headers)
	out := make([]broker.Header, 0, len(kept)+5)
	for _, h := range kept {
		out = append(out, broker.Header(h))
	}
	root := m.Root
	if root == uuid.Nil {
		root = m.ID
	}
	add := func(key, value string) { out = append(out, broker.Header{Key: key, Value: []byte(value)}) }
	add(deadletter.HeaderMessageID, m.ID.String())
	add(deadletter.HeaderRootID, root.String())
	add(deadletter.HeaderRetryCount, strconv.Itoa(m.RetryCount))
	add(deadletter.HeaderRedriveID, m.Claim.ID.String())
	add(deadletter.HeaderRedrivenAt, now.UTC().Format(redrivenAt))
	return out
}

// key is what attempt number attempt of m is sent with. It must come out the
// same before the claim, which stores the partition, and after it.
func (r *Republisher) key(m entity.Message, attempt int) []byte {
	if r.cfg.RepublishKey == KeyUUID {
		return r.uuidKey(m.ID, attempt)
	}
	return deadletter.ReplayKey(m.Failure.Dialect, m.Record)
}

// uuidKey is a UUID v4 for one attempt. Only this process can tell its key
// beforehand: the salt is its own.
func (r *Republisher) uuidKey(message uuid.UUID, attempt int) []byte {
	seed := append(r.salt[:len(r.salt):len(r.salt)], message[:]...)
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(seed, uint64(attempt)))
	id := uuid.UUID(sum[:16])
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return []byte(id.String())
}

// partition chooses one of n: the original one where it is known and still
// there, else the one that Java's default partitioner gives the key. Messages
// without a key are spread. A new key goes where its consumers look for it.
func (r *Republisher) partition(m entity.Message, n int) int32 {
	original := m.Origin.Partition
	if r.cfg.RepublishKey == KeyOriginal && original != nil && *original >= 0 && int(*original) < n {
		return *original
	}
	if key := r.key(m, m.RetryCount+1); key != nil {
		return broker.Murmur2Partition(key, n)
	}
	spread := fnv.New32a()
	spread.Write(m.ID[:])
	return int32(spread.Sum32() % uint32(n))
}

// record is what a claimed message is sent as, with value as its value.
func (r *Republisher) record(m entity.Message, value []byte) broker.Record {
	return broker.Record{
		Key:     r.key(m, m.RetryCount),
		Value:   value,
		Headers: headers(m, r.now()),
	}
}
