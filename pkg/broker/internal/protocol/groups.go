package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	kafkaprotocol "github.com/segmentio/kafka-go/protocol"
)

// listGroupsWithStates is the first version of ListGroups with states.
const listGroupsWithStates = 4

var errNoStates = errors.New("the broker is too old to tell the states of groups")

// ListGroups returns the request for the states of the consumer groups that a broker coordinates.
func ListGroups() Request[map[string]string] {
	return Request[map[string]string]{kafkaprotocol.ListGroups, func(rw io.ReadWriter, _ Versions) (map[string]string, error) {
		return exchangeGroups(rw)
	}}
}

// exchangeGroups uses a version that kafka-go does not have.
func exchangeGroups(rw io.ReadWriter) (map[string]string, error) {
	newest, err := newestVersion(rw, kafkaprotocol.ListGroups)
	if err != nil {
		return nil, err
	}
	if newest < listGroupsWithStates {
		return nil, errNoStates
	}
	body, err := roundTrip(rw, listGroupsRequest())
	if err != nil {
		return nil, err
	}
	return readGroups(body)
}

func listGroupsRequest() []byte {
	b := requestHead(kafkaprotocol.ListGroups, listGroupsWithStates)
	b = append(b, 1, 0) // no filter by states: all of them; no tagged fields
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

func readGroups(w *wire) (map[string]string, error) {
	w.skipTags() // of the header
	w.int32()    // throttle time
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
	if w.err != nil {
		return nil, fmt.Errorf("read groups: %w", w.err)
	}
	return states, nil
}
