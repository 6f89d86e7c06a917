package republisher

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// scanTimeout bounds the reading of one partition.
const scanTimeout = 2 * time.Minute

// Reasons for which the result is UNKNOWN: the log does not contain the record, and may have lost it.
var (
	errLogStartsLater = errors.New("the log no longer has the offset that the claim recorded")
	errLogEndsEarlier = errors.New("the log ends before the offset that the claim recorded: the topic was truncated or created again")
	errLogHasGaps     = errors.New("records were removed from the log by compaction")
	errOtherTopic     = errors.New("the topic was deleted and created again")
)

// FindMany searches the target partitions for the records of earlier claims, from the offset that each claim recorded
// to the present end. It reads each partition once. Its results are in the order of claims:
//   - Acknowledged, class ALREADY_PUBLISHED, and the offset: the record is there;
//   - GivenBack: the record is not there;
//   - InDoubt, class UNKNOWN: reading the log can never show whether the record was written;
//   - InDoubt, another class: the log could not be read now.
//
// The claims must have expired, because a record that is still being sent is not in the log yet. The log is read to
// the leader's own end, further than consumers see, because records after the end that consumers see may become
// visible later.
func (r *Republisher) FindMany(ctx context.Context, claims []entity.Claim) []entity.Delivery {
	findings := make([]entity.Delivery, len(claims))
	byPartition := map[broker.TopicPartition][]int{}
	for i, c := range claims {
		tp := broker.TopicPartition{Topic: c.Topic, Partition: c.Partition}
		byPartition[tp] = append(byPartition[tp], i)
	}
	logs := r.measure(ctx, byPartition)
	var all sync.WaitGroup
	slots := make(chan struct{}, parallel)
	for tp, indices := range byPartition {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			found, err := r.search(ctx, tp, logs[tp], pick(claims, indices))
			for _, i := range indices {
				findings[i] = finding(claims[i], logs[tp], found, err)
			}
		})
	}
	all.Wait()
	r.verifyTopicIDs(ctx, claims, findings)
	return findings
}

func pick(claims []entity.Claim, indices []int) []entity.Claim {
	picked := make([]entity.Claim, len(indices))
	for n, i := range indices {
		picked[n] = claims[i]
	}
	return picked
}

// extent is the range of offsets in a partition's log: the first offset, and the offset after the last record. If they
// are not known, err says why.
type extent struct {
	start, end int64
	err        error
}

func (r *Republisher) measure(ctx context.Context, byPartition map[broker.TopicPartition][]int) map[broker.TopicPartition]extent {
	parts := make([]broker.TopicPartition, 0, len(byPartition))
	for tp := range byPartition {
		parts = append(parts, tp)
	}
	starts, startErr := r.cluster.StartOffsets(ctx, parts)
	ends, endErr := r.cluster.AppendedOffsets(ctx, parts)
	logs := make(map[broker.TopicPartition]extent, len(parts))
	for _, tp := range parts {
		start, ok1 := starts[tp]
		end, ok2 := ends[tp]
		switch {
		case !ok1:
			logs[tp] = extent{err: noAnswer(tp, startErr)}
		case !ok2:
			logs[tp] = extent{err: noAnswer(tp, endErr)}
		default:
			logs[tp] = extent{start: start, end: end}
		}
	}
	return logs
}

// searchResult is the result of searching a partition's log for the records of claims.
type searchResult struct {
	offsets map[uuid.UUID]int64 // offsets of the records that were found, by claim id
	// largest offset in the searched range at which the log has no record; -1: it has a record at each offset
	gap int64
}

func (r *Republisher) search(ctx context.Context, tp broker.TopicPartition, log extent, claims []entity.Claim) (searchResult, error) {
	t := searchResult{offsets: map[uuid.UUID]int64{}, gap: -1}
	if log.err != nil {
		return t, log.err
	}
	wanted := make(map[uuid.UUID]bool, len(claims))
	from := log.end
	for _, c := range claims {
		wanted[c.ID] = true
		from = min(from, c.EndOffset)
	}
	from = max(from, log.start)
	if from >= log.end {
		return t, nil
	}
	ctx, cancel := context.WithTimeout(ctx, scanTimeout)
	defer cancel()
	next := from
	err := r.cluster.Scan(ctx, tp, from, log.end, deadletter.HeaderRedriveID, func(record broker.Record) bool {
		if record.Offset > next {
			t.gap = record.Offset - 1
		}
		next = record.Offset + 1
		if id, ok := redriveID(record); ok && wanted[id] {
			// the first record with the id is the one that was sent; later ones are copies
			if _, again := t.offsets[id]; !again {
				t.offsets[id] = record.Offset
			}
		}
		return len(t.offsets) == len(wanted)
	})
	if err != nil {
		return t, fmt.Errorf("read the target log: %w", err)
	}
	if next < log.end {
		t.gap = log.end - 1
	}
	return t, nil
}

func redriveID(record broker.Record) (uuid.UUID, bool) {
	for _, h := range record.Headers {
		if h.Key == deadletter.HeaderRedriveID {
			id, err := uuid.ParseBytes(h.Value)
			return id, err == nil
		}
	}
	return uuid.Nil, false
}

// finding returns the result of FindMany for one claim. If the record was found, an error of the search does not
// matter.
func finding(c entity.Claim, log extent, t searchResult, err error) entity.Delivery {
	if neverSent(c) {
		return absent(c)
	}
	if offset, ok := t.offsets[c.ID]; ok {
		return entity.Delivery{
			Verdict: entity.Acknowledged, Class: entity.AlreadyPublished, Partition: c.Partition, Offset: offset,
		}
	}
	if err != nil {
		return unreadable(c, err)
	}
	switch {
	case c.EndOffset < log.start:
		return unsettleable(c, errLogStartsLater)
	case c.EndOffset > log.end:
		return unsettleable(c, errLogEndsEarlier)
	case t.gap >= c.EndOffset:
		return unsettleable(c, errLogHasGaps)
	}
	return absent(c)
}

func absent(c entity.Claim) entity.Delivery {
	return entity.Delivery{Verdict: entity.GivenBack, Partition: c.Partition, Offset: broker.OffsetUnknown}
}

// unsettleable returns the result of FindMany for a claim whose record was not found in a log that may have lost
// it.
func unsettleable(c entity.Claim, why error) entity.Delivery {
	return entity.Delivery{
		Verdict: entity.InDoubt, Class: entity.UnknownClass, Err: why, Partition: c.Partition, Offset: broker.OffsetUnknown,
	}
}
