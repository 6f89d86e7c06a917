package broker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// listGroupsWithStates is the first version of ListGroups with states.
const listGroupsWithStates = 4

var errNoStates = errors.New("the broker is too old to tell the states of groups")

// GroupStates returns the state of every consumer group that the user may see, as its coordinator names it ("Stable",
// "Empty", ...), of groups of every protocol. Each broker is asked once for the groups that it coordinates. When one
// of them does not answer, there is no result: a missing group would look as if it did not exist.
func (c *Cluster) GroupStates(ctx context.Context) (map[string]string, error) {
	if c.closed.Load() {
		return nil, ErrClosed
	}
	client := &kafka.Client{Addr: kafka.TCP(c.cfg.Brokers...), Transport: c.transport}
	known, err := client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{}})
	if err != nil {
		return nil, fmt.Errorf("list brokers: %w", networkError(err))
	}
	states := map[string]string{}
	var all sync.WaitGroup
	var mu sync.Mutex
	var failed error
	for _, b := range known.Brokers {
		all.Go(func() {
			part, err := c.groupStatesOf(ctx, int32(b.ID))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = fmt.Errorf("list groups of broker %d: %w", b.ID, err)
			}
			for group, state := range part {
				states[group] = state
			}
		})
	}
	all.Wait()
	if failed != nil {
		return nil, failed
	}
	return states, nil
}

func (c *Cluster) groupStatesOf(ctx context.Context, broker int32) (map[string]string, error) {
	return ask[map[string]string](ctx, c, broker, protocol.ListGroups, requestTimeout,
		func(rw io.ReadWriter, _ versions) (any, error) { return exchangeGroups(rw) })
}

// exchangeGroups uses a version that kafka-go does not have.
func exchangeGroups(rw io.ReadWriter) (map[string]string, error) {
	newest, err := newestVersion(rw, protocol.ListGroups)
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
	b := requestHead(protocol.ListGroups, listGroupsWithStates)
	b = append(b, 1, 0) // no filter by states: all of them; no tagged fields
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

func readGroups(w *wire) (map[string]string, error) {
	w.skipTags() // of the header
	w.int32()    // throttle time
	if err := codeError(w.int16()); err != nil {
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
