package protocol

import (
	"io"

	kafkaprotocol "github.com/segmentio/kafka-go/protocol"
)

// Requests about share groups, which kafka-go does not have.
const (
	listConfigResources       kafkaprotocol.ApiKey = 74
	describeShareGroupOffsets kafkaprotocol.ApiKey = 90
)

const (
	// GroupResource is the resource type under which Kafka keeps the configurations of groups.
	GroupResource = 32

	// listGroupResources is the first version of ListConfigResources in which a request can name the types of resources.
	listGroupResources = 1
	// shareGroupLag is the first version of DescribeShareGroupOffsets whose answer contains the lag.
	shareGroupLag = 1
)

// ConfiguredGroups returns the request for the names of all groups that have a configuration of their own. A broker
// older than Kafka 4.1 has no configurations of groups, and answers with no name.
func ConfiguredGroups() Request[[]string] {
	return Request[[]string]{Key: listConfigResources, Exchange: func(rw io.ReadWriter, _ Versions) ([]string, error) {
		newest, err := newestVersion(rw, listConfigResources)
		if err != nil || newest < listGroupResources {
			return nil, err
		}
		b := requestHead(listConfigResources, listGroupResources)
		b = append(b, 2, GroupResource, 0) // an array with one resource type; no tagged fields
		body, err := exchange(rw, b)
		if err != nil {
			return nil, err
		}
		body.int32() // throttle time
		if err := CodeError(body.int16()); err != nil {
			return nil, err
		}
		var names []string
		for range body.count() {
			names = append(names, body.compactString())
			body.int8() // type
			body.skipTags()
		}
		return names, body.failed("read the groups with a configuration")
	}}
}

// ShareOffset is how far a share group has come in a partition.
type ShareOffset struct {
	// Start is the offset before which all records are final: acknowledged or archived; -1 when no record was delivered
	// yet. It may be too low, because the broker stores it only together with the partition's next change of state.
	Start int64
	// Lag is the number of records at or after Start that are not final; -1 where it is not known.
	Lag int64
}

// ShareOffsets returns the request for the partitions in which a share group has state. It must be sent to the group's
// coordinator. For a group that does not exist the answer is empty.
func ShareOffsets(group string) Request[map[TopicPartition]ShareOffset] {
	return Request[map[TopicPartition]ShareOffset]{Key: describeShareGroupOffsets, Exchange: func(rw io.ReadWriter, _ Versions) (map[TopicPartition]ShareOffset, error) {
		newest, err := newestVersion(rw, describeShareGroupOffsets)
		if err != nil {
			return nil, err
		}
		version := min(newest, shareGroupLag)
		b := requestHead(describeShareGroupOffsets, version)
		b = appendCompactString(append(b, 2), group)
		b = append(b, 0, 0, 0) // null, which means all topics; then no tagged fields of the group and of the request
		body, err := exchange(rw, b)
		if err != nil {
			return nil, err
		}
		return readShareOffsets(body, version)
	}}
}

func readShareOffsets(w *wire, version int16) (map[TopicPartition]ShareOffset, error) {
	w.int32() // throttle time
	offsets := map[TopicPartition]ShareOffset{}
	for range w.count() {
		w.compactString() // group
		for range w.count() {
			topic := w.compactString()
			w.take(16) // the topic's id
			for range w.count() {
				tp := TopicPartition{Topic: topic, Partition: w.int32()}
				at := ShareOffset{Start: w.int64(), Lag: -1}
				w.int32() // leader epoch
				if version >= shareGroupLag {
					at.Lag = w.int64()
				}
				if w.int16() == 0 {
					offsets[tp] = at
				}
				w.compactString() // error message
				w.skipTags()
			}
			w.skipTags()
		}
		code := w.int16()
		w.compactString() // error message
		w.skipTags()
		if err := CodeError(code); err != nil {
			return nil, err
		}
	}
	return offsets, w.failed("read the offsets of a share group")
}

const (
	apiVersionsWithFeatures = 3
	finalizedFeatures       = 2 // number of the tagged field that contains the finalized features
)

// Features returns the request for the cluster's finalized features and their levels; none where a broker is too old.
func Features() Request[map[string]int16] {
	return Request[map[string]int16]{Key: kafkaprotocol.ApiVersions, Exchange: func(rw io.ReadWriter, _ Versions) (map[string]int16, error) {
		newest, err := newestVersion(rw, kafkaprotocol.ApiVersions)
		if err != nil || newest < apiVersionsWithFeatures {
			return nil, err
		}
		b := requestHead(kafkaprotocol.ApiVersions, apiVersionsWithFeatures)
		b = appendCompactString(appendCompactString(b, ClientID), "1")
		body, err := roundTrip(rw, append(b, 0)) // the header of this answer has no tagged fields in any version
		if err != nil {
			return nil, err
		}
		return readFeatures(body)
	}}
}

func readFeatures(w *wire) (map[string]int16, error) {
	if err := CodeError(w.int16()); err != nil {
		return nil, err
	}
	for range w.count() {
		w.take(6) // key, lowest and highest version
		w.skipTags()
	}
	w.int32() // throttle time
	levels := map[string]int16{}
	for range min(w.uvarint(), uint64(len(w.b))) {
		tag := w.uvarint()
		field := &wire{b: w.take(int(min(w.uvarint(), uint64(len(w.b)+1))))}
		if tag != finalizedFeatures {
			continue
		}
		for range field.count() {
			name := field.compactString()
			levels[name] = field.int16() // the highest level, which is in force
			field.int16()
			field.skipTags()
		}
	}
	return levels, w.failed("read the features of the cluster")
}
