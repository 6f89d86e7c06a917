package broker

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/google/uuid"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/apiversions"
	"github.com/segmentio/kafka-go/protocol/metadata"
)

// TopicPartition names one log of a cluster.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// String is topic/partition.
func (tp TopicPartition) String() string { return fmt.Sprintf("%s/%d", tp.Topic, tp.Partition) }

func compareParts(a, b TopicPartition) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}

// Topic is a broker's description of a topic.
type Topic struct {
	Name string
	// ID is the topic's UUID as text, new when it is created again; empty for brokers before 2.8.
	ID string
	// Internal marks Kafka's own topics, such as __consumer_offsets.
	Internal   bool
	Partitions []Partition
	// Err is why a requested topic has no partitions: ErrUnknownTopic, ErrUnauthorized, or ErrNoLeader (a new topic).
	Err error
}

// Partition is one log of a Topic. Leader is a broker's id, -1 for none.
type Partition struct {
	ID     int32
	Leader int32
}

func (t Topic) leaderOf(tp TopicPartition) (int32, error) {
	if t.Err != nil {
		return 0, t.Err
	}
	for _, p := range t.Partitions {
		if p.ID != tp.Partition {
			continue
		}
		if p.Leader < 0 {
			return 0, ErrNoLeader
		}
		return p.Leader, nil
	}
	return 0, ErrUnknownTopic
}

// GroupByLeader groups parts by the leaders in topics, as Fetch requires; the order within a list is that of parts.
// Partitions that are not in topics, or have no leader, are under -1.
func GroupByLeader(topics []Topic, parts []TopicPartition) map[int32][]TopicPartition {
	byName := make(map[string]Topic, len(topics))
	for _, t := range topics {
		byName[t.Name] = t
	}
	groups := map[int32][]TopicPartition{}
	for _, tp := range parts {
		leader, err := byName[tp.Topic].leaderOf(tp)
		if err != nil {
			leader = -1
		}
		groups[leader] = append(groups[leader], tp)
	}
	return groups
}

// Topics describes the named topics, or without names every topic that the user may see, as one broker knows them
// now. It never creates a topic. A named topic that does not exist is in the answer, with Err set.
func (c *Cluster) Topics(ctx context.Context, names ...string) ([]Topic, error) {
	topics, err := ask[[]Topic](ctx, c, anyBroker, protocol.Metadata, requestTimeout,
		func(rw io.ReadWriter, v versions) (any, error) { return exchangeTopics(rw, v, names) })
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	return topics, nil
}

// Versions of the Metadata request with topic ids that this package supports.
const (
	metadataWithIDs = 10
	metadataNewest  = 12
)

// exchangeTopics asks the connection's broker, because kafka-go answers from its cache, without topic ids.
func exchangeTopics(rw io.ReadWriter, v versions, names []string) ([]Topic, error) {
	newest, err := newestVersion(rw, protocol.Metadata)
	if err != nil {
		return nil, err
	}
	if newest < metadataWithIDs {
		return exchangeTopicsWithoutIDs(rw, v, names)
	}
	version := min(newest, metadataNewest)
	body, err := roundTrip(rw, metadataRequest(version, names))
	if err != nil {
		return nil, err
	}
	return readTopics(body, version)
}

// newestVersion asks for the broker's newest version; kafka-go offers only those that it supports itself.
func newestVersion(rw io.ReadWriter, key protocol.ApiKey) (int16, error) {
	res, err := protocol.RoundTrip(rw, 0, correlation, clientID, &apiversions.Request{})
	if err != nil {
		return 0, err
	}
	for _, k := range res.(*apiversions.Response).ApiKeys {
		if protocol.ApiKey(k.ApiKey) == key {
			return k.MaxVersion, nil
		}
	}
	return 0, nil
}

func metadataRequest(version int16, names []string) []byte {
	b := requestHead(protocol.Metadata, version)
	if len(names) == 0 {
		b = append(b, 0) // null: all topics
	} else {
		b = binary.AppendUvarint(b, uint64(len(names)+1))
	}
	for _, name := range names {
		b = append(b, make([]byte, 16)...) // by name, not by id
		b = appendCompactString(b, name)
		b = append(b, 0)
	}
	b = append(b, 0) // do not create topics
	if version <= 10 {
		b = append(b, 0) // cluster operations
	}
	b = append(b, 0, 0) // topic operations, no tagged fields
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

func readTopics(w *wire, version int16) ([]Topic, error) {
	w.skipTags()
	w.int32() // throttle time
	for range w.count() {
		w.int32() // broker id
		w.compactString()
		w.int32()
		w.compactString()
		w.skipTags()
	}
	w.compactString() // cluster id
	w.int32()         // controller
	topics := make([]Topic, w.count())
	for i := range topics {
		topics[i] = readTopic(w)
	}
	if w.err != nil {
		return nil, fmt.Errorf("read metadata version %d: %w", version, w.err)
	}
	return topics, nil
}

func readTopic(w *wire) Topic {
	t := Topic{Err: codeError(w.int16()), Name: w.compactString()}
	if id, err := uuid.FromBytes(w.take(16)); err == nil && id != uuid.Nil {
		t.ID = id.String()
	}
	t.Internal = w.int8() != 0
	t.Partitions = make([]Partition, w.count())
	for i := range t.Partitions {
		w.int16() // its error only repeats that there is no leader
		t.Partitions[i] = Partition{ID: w.int32(), Leader: w.int32()}
		w.int32() // leader epoch
		w.skipInt32s()
		w.skipInt32s()
		w.skipInt32s()
		w.skipTags()
	}
	w.int32() // topic operations
	w.skipTags()
	return t
}

func exchangeTopicsWithoutIDs(rw io.ReadWriter, v versions, names []string) ([]Topic, error) {
	res, err := protocol.RoundTrip(rw, v[protocol.Metadata], correlation, clientID, &metadata.Request{TopicNames: names})
	if err != nil {
		return nil, err
	}
	var topics []Topic
	for _, t := range res.(*metadata.Response).Topics {
		topic := Topic{Name: t.Name, Internal: t.IsInternal, Err: codeError(t.ErrorCode)}
		for _, p := range t.Partitions {
			topic.Partitions = append(topic.Partitions, Partition{ID: p.PartitionIndex, Leader: p.LeaderID})
		}
		topics = append(topics, topic)
	}
	return topics, nil
}
