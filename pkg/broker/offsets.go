package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/listoffsets"

	"github.com/dlq-manager/dlq-manager/pkg/broker/internal/conn"
	"github.com/dlq-manager/dlq-manager/pkg/broker/internal/protocol"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

// Special values of the ListOffsets request.
const (
	asConsumer = -1 // the end of a log is its high watermark
	asDebugger = -2 // the end of a log is the end of the leader's copy, which may be after the high watermark

	logEnd   = -1
	logStart = -2
)

// offsetsQuery says which offset of a log a request asks for, whether it asks as a consumer or as a debugger, and whether
// it asks as a reader of committed records.
type offsetsQuery struct {
	asker     int32
	which     int64
	isolation int8 // protocol.ReadCommitted: the end of a log is before the first record of an open transaction
}

// StartOffsets returns the first offset that each log still has. Partitions without an answer are missing from the
// result and named in the error, which is then a PartitionErrors; any other error means no result.
func (c *Cluster) StartOffsets(ctx context.Context, parts []TopicPartition) (map[TopicPartition]int64, error) {
	return c.listOffsets(ctx, parts, offsetsQuery{asker: asConsumer, which: logStart})
}

// EndOffsets returns the offset after the last record that a consumer can see (the high watermark, records of open
// transactions included). Errors are as in StartOffsets; an answer also shows that the leader is reachable.
func (c *Cluster) EndOffsets(ctx context.Context, parts []TopicPartition) (map[TopicPartition]int64, error) {
	return c.listOffsets(ctx, parts, offsetsQuery{asker: asConsumer, which: logEnd})
}

// StableOffsets returns the offset up to which a reader of committed records can read now: EndOffsets, or the offset of
// the first record of an open transaction before it. Errors are as in StartOffsets.
func (c *Cluster) StableOffsets(ctx context.Context, parts []TopicPartition) (map[TopicPartition]int64, error) {
	return c.listOffsets(ctx, parts, offsetsQuery{asker: asConsumer, which: logEnd, isolation: protocol.ReadCommitted})
}

// AppendedOffsets returns the offset after the last record in the leader's log, which consumers cannot see yet when
// replicas lag. A search that must prove that a record was never written reads up to AppendedOffsets. Errors are as in
// StartOffsets.
func (c *Cluster) AppendedOffsets(ctx context.Context, parts []TopicPartition) (map[TopicPartition]int64, error) {
	return c.listOffsets(ctx, parts, offsetsQuery{asker: asDebugger, which: logEnd})
}

// maxOffsetTries is the number of times that a partition's offset is requested while its leader has just been elected.
// The pauses between the requests add up to a second.
const maxOffsetTries = 5

func (c *Cluster) listOffsets(ctx context.Context, parts []TopicPartition, query offsetsQuery) (map[TopicPartition]int64, error) {
	offsets, errs := make(map[TopicPartition]int64, len(parts)), map[TopicPartition]error{}
	for try := 1; len(parts) > 0; try++ {
		if err := c.askOffsets(ctx, parts, query, offsets, errs); err != nil {
			return nil, fmt.Errorf("list offsets: %w", err)
		}
		parts = slices.DeleteFunc(slices.Clone(parts), func(tp TopicPartition) bool { return !justElected(errs[tp]) })
		if try == maxOffsetTries || len(parts) > 0 && !wait.Sleep(ctx, time.Duration(try)*retryWait) {
			break
		}
	}
	return offsets, PartitionErrors(errs).orNil()
}

// justElected reports whether an error shows that a partition has a new leader: the metadata still name the old one, or
// the new leader does not know yet what its followers have replicated (KIP-207).
func justElected(err error) bool {
	return errors.Is(err, ErrNotLeader) || errors.Is(err, kafka.OffsetNotAvailable)
}

// askOffsets asks the leaders of parts once, and writes their answers into offsets and errs. It removes errors that
// earlier requests left in errs for the partitions in parts.
func (c *Cluster) askOffsets(ctx context.Context, parts []TopicPartition, query offsetsQuery, offsets map[TopicPartition]int64, errs map[TopicPartition]error) error {
	leaders, leaderless, err := c.leaders.query(ctx, parts)
	if err != nil {
		return err
	}
	byLeader := map[int32][]TopicPartition{}
	for _, tp := range parts {
		delete(errs, tp)
		if leader, ok := leaders[tp]; ok {
			byLeader[leader] = append(byLeader[leader], tp)
		}
	}
	maps.Copy(errs, leaderless)
	for leader, group := range byLeader {
		res, err := conn.Ask(ctx, c.pool, leader, conn.RequestTimeout,
			protocol.Message[*listoffsets.Response](listOffsetsRequest(group, query)))
		if err != nil {
			for _, tp := range group {
				errs[tp] = err
			}
			continue
		}
		readOffsets(res, offsets, errs)
	}
	for _, tp := range parts {
		if _, ok := offsets[tp]; !ok && errs[tp] == nil {
			errs[tp] = fmt.Errorf("%w: no answer", ErrUnavailable)
		}
	}
	return nil
}

func listOffsetsRequest(parts []TopicPartition, query offsetsQuery) *listoffsets.Request {
	req := &listoffsets.Request{ReplicaID: query.asker, IsolationLevel: query.isolation}
	for topic, ids := range byTopic(parts) {
		t := listoffsets.RequestTopic{Topic: topic}
		for _, id := range ids {
			t.Partitions = append(t.Partitions, listoffsets.RequestPartition{
				Partition: id, CurrentLeaderEpoch: -1, Timestamp: query.which,
			})
		}
		req.Topics = append(req.Topics, t)
	}
	return req
}

func readOffsets(res *listoffsets.Response, offsets map[TopicPartition]int64, errs map[TopicPartition]error) {
	for _, t := range res.Topics {
		for _, p := range t.Partitions {
			tp := TopicPartition{Topic: t.Topic, Partition: p.Partition}
			if err := protocol.CodeError(p.ErrorCode); err != nil {
				errs[tp] = err
				continue
			}
			offsets[tp] = p.Offset
		}
	}
}

func byTopic(parts []TopicPartition) map[string][]int32 {
	topics := map[string][]int32{}
	for _, tp := range parts {
		topics[tp.Topic] = append(topics[tp.Topic], tp.Partition)
	}
	return topics
}

// CommittedOffsets returns the committed offset of a consumer group in each partition: the offset that the group reads
// next. Partitions for which the group has never committed an offset are missing from the result. Errors are as in
// StartOffsets.
func (c *Cluster) CommittedOffsets(ctx context.Context, consumerGroup string, parts []TopicPartition) (map[TopicPartition]int64, error) {
	if len(parts) == 0 {
		return map[TopicPartition]int64{}, nil // a request without topics would ask for all topics
	}
	if err := c.pool.Closed(); err != nil {
		return nil, err
	}
	topics := map[string][]int{}
	for _, tp := range parts {
		topics[tp.Topic] = append(topics[tp.Topic], int(tp.Partition))
	}
	ctx, cancel := context.WithTimeout(ctx, conn.RequestTimeout)
	defer cancel()
	res, err := c.pool.Client().OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: consumerGroup, Topics: topics})
	if err == nil {
		err = res.Error
	}
	if err != nil {
		return nil, fmt.Errorf("fetch committed offsets: %w", conn.NetworkError(err))
	}
	offsets := make(map[TopicPartition]int64, len(parts))
	errs := PartitionErrors{}
	for topic, partitions := range res.Topics {
		for _, p := range partitions {
			tp := TopicPartition{Topic: topic, Partition: int32(p.Partition)}
			switch {
			case p.Error != nil:
				errs[tp] = conn.NetworkError(p.Error)
			case p.CommittedOffset >= 0:
				offsets[tp] = p.CommittedOffset
			}
		}
	}
	return offsets, errs.orNil()
}
