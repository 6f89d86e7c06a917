package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/google/uuid"
	kafkaprotocol "github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/metadata"
)

// Topic is a broker's description of a topic.
type Topic struct {
	Name string
	// ID is the topic's UUID as text. A topic that is deleted and created again has a new id. With a broker before 2.8,
	// which has no topic ids, ID is empty.
	ID string
	// Internal marks Kafka's own topics, such as __consumer_offsets.
	Internal   bool
	Partitions []Partition
	// Err is the reason why a requested topic has no partitions: usually ErrUnknownTopic, ErrUnauthorized or, for a new
	// topic, ErrNoLeader; nil when it has partitions.
	Err error
}

// Partition is one log of a Topic. Leader is a broker's id, -1 for none.
type Partition struct {
	ID     int32
	Leader int32
}

// LeaderOf returns the leader of one of the topic's partitions, or the reason why there is none.
func (t Topic) LeaderOf(tp TopicPartition) (int32, error) {
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

// The oldest version of the Metadata request with topic ids, and the newest version that package protocol supports.
const (
	metadataWithIDs = 10
	metadataNewest  = 12
)

// Metadata returns the request for the named topics, or without names for all. The request goes to a broker, whereas
// kafka-go would answer its own Metadata request from its cache, which contains no topic ids.
func Metadata(names []string) Request[[]Topic] {
	return Request[[]Topic]{Key: kafkaprotocol.Metadata, Exchange: func(rw io.ReadWriter, v Versions) ([]Topic, error) {
		newest, err := newestVersion(rw, kafkaprotocol.Metadata)
		if err != nil {
			return nil, err
		}
		if newest < metadataWithIDs {
			return exchangeTopicsWithoutIDs(rw, v, names)
		}
		version := min(newest, metadataNewest)
		body, err := exchange(rw, metadataRequest(version, names))
		if err != nil {
			return nil, err
		}
		return readTopics(body, version)
	}}
}

func metadataRequest(version int16, names []string) []byte {
	b := requestHead(kafkaprotocol.Metadata, version)
	if len(names) == 0 {
		b = append(b, 0) // null: all topics
	} else {
		b = binary.AppendUvarint(b, uint64(len(names)+1))
	}
	for _, name := range names {
		b = append(b, make([]byte, 16)...) // an empty id, because the topic is requested by its name
		b = appendCompactString(b, name)
		b = append(b, 0)
	}
	b = append(b, 0) // do not create topics
	if version <= 10 {
		b = append(b, 0) // cluster operations
	}
	b = append(b, 0, 0) // do not report the allowed operations on topics; no tagged fields
	return b
}

func readTopics(w *wire, version int16) ([]Topic, error) {
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
	t := Topic{Err: CodeError(w.int16()), Name: w.compactString()}
	if id, err := uuid.FromBytes(w.take(16)); err == nil && id != uuid.Nil {
		t.ID = id.String()
	}
	t.Internal = w.int8() != 0
	t.Partitions = make([]Partition, w.count())
	for i := range t.Partitions {
		w.int16() // the partition's error, which only repeats that there is no leader
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

func exchangeTopicsWithoutIDs(rw io.ReadWriter, v Versions, names []string) ([]Topic, error) {
	res, err := RoundTrip[*metadata.Response](rw, v[kafkaprotocol.Metadata], &metadata.Request{TopicNames: names})
	if err != nil {
		return nil, err
	}
	var topics []Topic
	for _, t := range res.Topics {
		topic := Topic{Name: t.Name, Internal: t.IsInternal, Err: CodeError(t.ErrorCode)}
		for _, p := range t.Partitions {
			topic.Partitions = append(topic.Partitions, Partition{ID: p.PartitionIndex, Leader: p.LeaderID})
		}
		topics = append(topics, topic)
	}
	return topics, nil
}

// listGroupsWithStates is the first version of ListGroups whose answer contains the states of groups.
const listGroupsWithStates = 4

var errNoStates = errors.New("the broker is too old to tell the states of groups")

// ListGroups returns the request for the states of all groups that a broker coordinates, in a version that kafka-go
// does not have.
func ListGroups() Request[map[string]string] {
	return Request[map[string]string]{Key: kafkaprotocol.ListGroups, Exchange: func(rw io.ReadWriter, _ Versions) (map[string]string, error) {
		newest, err := newestVersion(rw, kafkaprotocol.ListGroups)
		if err != nil {
			return nil, err
		}
		if newest < listGroupsWithStates {
			return nil, errNoStates
		}
		body, err := exchange(rw, listGroupsRequest())
		if err != nil {
			return nil, err
		}
		return readGroups(body)
	}}
}

func listGroupsRequest() []byte {
	b := requestHead(kafkaprotocol.ListGroups, listGroupsWithStates)
	b = append(b, 1, 0) // no filter, so groups in all states; no tagged fields
	return b
}

func readGroups(w *wire) (map[string]string, error) {
	w.int32() // throttle time
	if err := CodeError(w.int16()); err != nil {
		return nil, err
	}
	states := map[string]string{}
	for range w.count() {
		group := w.compactString()
		w.compactString() // protocol type
		states[group] = w.compactString()
		w.skipTags()
	}
	return states, w.failed("read groups")
}
