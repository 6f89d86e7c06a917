package ingest

import (
	"context"
	"encoding/json"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
)

// quarantineSteps must follow moveSteps. It stores a record in quarantine if moveSteps has moved the position past the
// record.
const quarantineSteps = `, kept AS (
		INSERT INTO dlq.quarantine (id, dlq_topic_id, incarnation_id, partition, dlq_offset, timestamp_ms,
			headers, state, sqlstate, error, first_try, last_try, retry_at, key, value)
		SELECT $5::uuid, $6::int, incarnation_id, partition, $7::bigint, $8::bigint,
			$9::bytea, $10, $11, $12, moment, moment, moment + $14::bigint * interval '1 microsecond', $15::bytea, $16::bytea
		FROM moved CROSS JOIN (SELECT coalesce($13::timestamptz, clock_timestamp()) AS moment) c
		ON CONFLICT ON CONSTRAINT quarantine_position DO NOTHING
	)`

// quarantine stores the record of a batch that has only one message in quarantine, and moves the position past it.
func (s *Ingester) quarantine(ctx context.Context, batch repository.Batch, refusal error) (repository.Stored, error) {
	m := &batch.Messages[0]
	state, err := recordState(m.Record)
	if err != nil {
		return repository.Stored{}, err
	}
	code, text := conn.RefusalOf(refusal)
	args := append(rangeArgs(batch.Ranges), m.ID, m.Source.TopicID, m.Source.Offset, timestampOf(m.Source),
		codec.PackHeaders(m.Record.Headers), state, code, codec.Clean(text), s.db.Clock(), repository.QuarantineRest.Microseconds(),
		nullBytes(m.Record.Key), nullBytes(m.Record.Value))
	var found []positionRow
	if err := s.db.Select(ctx, &found, moveSteps+quarantineSteps+storedPartitions, args...); err != nil {
		return repository.Stored{}, err
	}
	var stored repository.Stored
	for _, f := range found {
		stored.Ranges = append(stored.Ranges, f.partition())
		stored.Quarantined = append(stored.Quarantined, repository.Refused{Source: m.Source, SQLState: code})
	}
	return stored, nil
}

// nullBytes returns b as an argument. It returns NULL for nil, because the driver would send empty bytes.
func nullBytes(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}

// recordState returns the JSON of a record's fields, such as its state and its size, without key, value and headers.
func recordState(r entity.Record) (string, error) {
	r.Key, r.Value, r.Headers = nil, nil, nil
	state, err := json.Marshal(r)
	return string(state), err
}

// timestampOf returns a record's timestamp in milliseconds; NULL when the record has none.
func timestampOf(source entity.Source) any {
	switch {
	case source.RawTime != 0:
		return source.RawTime
	case source.Timestamp.IsZero():
		return nil
	}
	return source.Timestamp.UnixMilli()
}

// bisect stores a refused batch in halves, and a refused half in halves again, until the refused part has only one
// message, which goes into quarantine. Each part is committed by itself, so that other partitions do not wait, and that
// each position stays the end of the stored messages after a crash. When bisect returns an error, it also returns what
// was stored.
func (s *Ingester) bisect(ctx context.Context, batch repository.Batch, known *prepared, refusal error) (repository.Stored, error) {
	if len(batch.Messages) == 0 {
		return repository.Stored{}, refusal // a batch without messages was refused, so no message is the cause
	}
	if len(batch.Messages) == 1 && len(batch.Ranges) == 1 {
		return s.quarantine(ctx, batch, refusal)
	}
	first, second := halves(batch)
	ofFirst, ofSecond := known.halves(len(first.Messages))
	stored, err := s.storeWithoutRepeats(ctx, first, ofFirst)
	var rest repository.Stored
	if err == nil {
		rest, err = s.storeWithoutRepeats(ctx, second, ofSecond)
	}
	// When both halves contain a range of the same partition, the whole range of this partition counts as stored only
	// if the range in the second half was stored.
	later := make(map[repository.Partition]bool, len(second.Ranges))
	for _, r := range second.Ranges {
		later[r.Partition] = true
	}
	for _, p := range stored.Ranges {
		if !later[p] {
			rest.Ranges = append(rest.Ranges, p)
		}
	}
	rest.Returns = append(stored.Returns, rest.Returns...)
	rest.Quarantined = append(stored.Quarantined, rest.Quarantined...)
	return rest, err
}

// halves splits a batch into two batches with half of the messages each. A range with messages in both batches is split
// at the first message of the second batch. Ranges without messages go into the first batch.
func halves(b repository.Batch) (first, second repository.Batch) {
	first, second = b, b
	middle := len(b.Messages) / 2
	first.Messages, second.Messages = b.Messages[:middle], b.Messages[middle:]
	first.Ranges, second.Ranges = nil, nil
	partition := func(m *entity.Message) repository.Partition {
		return repository.Partition{Incarnation: m.Source.Incarnation, Partition: m.Source.Partition}
	}
	before, cut := map[repository.Partition]bool{}, map[repository.Partition]int64{}
	for i := range first.Messages {
		before[partition(&first.Messages[i])] = true
	}
	for i := range second.Messages {
		m := &second.Messages[i]
		if _, known := cut[partition(m)]; !known {
			cut[partition(m)] = m.Source.Offset
		}
	}
	for _, r := range b.Ranges {
		at, behind := cut[r.Partition]
		switch {
		case !behind:
			first.Ranges = append(first.Ranges, r)
		case !before[r.Partition]:
			second.Ranges = append(second.Ranges, r)
		default:
			first.Ranges = append(first.Ranges, repository.Range{Partition: r.Partition, From: r.From, To: at})
			second.Ranges = append(second.Ranges, repository.Range{Partition: r.Partition, From: at, To: r.To})
		}
	}
	return first, second
}
