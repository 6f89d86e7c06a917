package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/segmentio/kafka-go/compress"
	"github.com/segmentio/kafka-go/protocol/initproducerid"

	"github.com/dlq-manager/dlq-manager/pkg/broker/internal/conn"
	"github.com/dlq-manager/dlq-manager/pkg/broker/internal/protocol"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

// ProducerConfig tunes a Producer.
type ProducerConfig struct {
	// Timeout is the total time for sending a batch, including repeated tries.
	Timeout time.Duration `mapstructure:"timeout"`
	// RequestTimeout limits one try, so that a silent connection leaves time for another try.
	RequestTimeout time.Duration `mapstructure:"request_timeout"`
	// MaxBatchBytes limits the size of a batch before compression; a larger record is sent alone. MaxBatchBytes should be
	// below message.max.bytes of the brokers.
	MaxBatchBytes int `mapstructure:"max_batch_bytes"`
	// Compression is none, gzip, snappy, lz4 or zstd.
	Compression string `mapstructure:"compression"`
}

// DefaultProducerConfig returns the values that replace zero fields.
func DefaultProducerConfig() ProducerConfig {
	return ProducerConfig{
		Timeout:        5 * time.Second,
		RequestTimeout: 2 * time.Second,
		MaxBatchBytes:  900_000,
		Compression:    "none",
	}
}

// Validate reports every problem at once. An error names a setting by its key within the section, such as "timeout".
func (c ProducerConfig) Validate() error {
	var problems []error
	if c.Timeout < 0 {
		problems = append(problems, fmt.Errorf("timeout: %s is negative", c.Timeout))
	}
	if c.RequestTimeout < 0 {
		problems = append(problems, fmt.Errorf("request_timeout: %s is negative", c.RequestTimeout))
	}
	if c.MaxBatchBytes < 0 {
		problems = append(problems, fmt.Errorf("max_batch_bytes: %d is negative", c.MaxBatchBytes))
	}
	if _, err := codecOf(c.Compression); err != nil {
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

func (c ProducerConfig) withDefaults() ProducerConfig {
	d := DefaultProducerConfig()
	c.Timeout = cmp.Or(c.Timeout, d.Timeout)
	c.RequestTimeout = min(cmp.Or(c.RequestTimeout, d.RequestTimeout), c.Timeout)
	if c.MaxBatchBytes <= 0 {
		c.MaxBatchBytes = d.MaxBatchBytes
	}
	return c
}

func codecOf(name string) (compress.Compression, error) {
	if name == "" {
		return 0, nil
	}
	var c compress.Compression
	if err := c.UnmarshalText([]byte(name)); err != nil {
		return 0, fmt.Errorf("compression: %w", err)
	}
	return c, nil
}

// Producer writes records so that sending a batch again cannot duplicate its records: each batch has a producer id and
// a sequence, by which the broker recognises it. Each partition has at most one batch in progress; partitions do not
// wait for one another. A Producer is safe for concurrent use and needs no closing.
type Producer struct {
	pool    *conn.Pool
	leaders *leaders
	cfg     ProducerConfig
	codec   compress.Compression

	mu     sync.Mutex
	lanes  map[TopicPartition]*lane
	pauses map[int32]time.Time // until when each broker asks for no records, by its id
}

// NewProducer makes a producer; zero fields of cfg mean the defaults, and an invalid name of a compression means no
// compression.
func (c *Cluster) NewProducer(cfg ProducerConfig) *Producer {
	codec, _ := codecOf(cfg.Compression)
	return &Producer{pool: c.pool, leaders: c.leaders, cfg: cfg.withDefaults(), codec: codec, lanes: map[TopicPartition]*lane{}, pauses: map[int32]time.Time{}}
}

// Throttle returns how much longer the broker that leads the partition asks for no records. It is 0 when the leader
// cannot be found: then Produce reports why. Produce waits for the end of a throttle too, but only if it
// ends within the Timeout.
func (p *Producer) Throttle(ctx context.Context, tp TopicPartition) time.Duration {
	if !p.throttled() {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, p.cfg.RequestTimeout)
	defer cancel()
	leader, err := p.leaders.of(ctx, tp)
	if err != nil {
		return 0
	}
	return p.throttle(leader)
}

// throttled reports whether any broker asks for no records.
func (p *Producer) throttled() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for _, until := range p.pauses {
		if until.After(now) {
			return true
		}
	}
	return false
}

// awaitThrottle waits until a broker accepts records. It returns false at once when ctx ends before that.
func (p *Producer) awaitThrottle(ctx context.Context, leader int32) bool {
	for left := p.throttle(leader); left > 0; left = p.throttle(leader) {
		if end, ok := ctx.Deadline(); ok && time.Until(end) < left || !wait.Sleep(ctx, left) {
			return false
		}
	}
	return true
}

// throttle returns how much longer a broker asks for no records.
func (p *Producer) throttle(leader int32) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(0, time.Until(p.pauses[leader]))
}

func (p *Producer) pause(leader int32, throttle time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until := time.Now().Add(throttle); until.After(p.pauses[leader]) {
		p.pauses[leader] = until
	}
}

// OffsetUnknown is the offset of a record that was not written, and of a record that is in the log at an unknown
// offset: when the batch was sent again, the broker recognised it but no longer knew its offset.
const OffsetUnknown = -1

// RecordResult is the result for one record: all in-sync replicas have it at Offset, or Err is a *ProduceError.
type RecordResult struct {
	Offset int64
	Err    error
}

// ProduceResult has one entry for each record of a call of Produce, in the order of the records.
type ProduceResult struct {
	Records []RecordResult
	// Throttle is the longest pause that the broker asked for. Later batches for this broker wait for it.
	Throttle time.Duration
}

// Err returns the first record's error, nil when all were written.
func (r ProduceResult) Err() error {
	for _, rec := range r.Records {
		if rec.Err != nil {
			return rec.Err
		}
	}
	return nil
}

// BatchLimit is what a topic accepts.
type BatchLimit struct {
	Bytes int    // size of the largest batch; 0: not known
	Codec string // codec for a record that is larger than Bytes as the producer encodes it; "" or none: uncompressed
}

// BatchSize returns the size of a batch that contains only the record, in bytes, compressed with the named codec.
func BatchSize(r Record, codec string) (int, error) {
	c, err := codecOf(codec)
	if err != nil {
		return 0, err
	}
	encoded, err := protocol.EncodeBatch([]Record{r}, c)
	if err != nil {
		return 0, fmt.Errorf("measure a record: %w", err)
	}
	return encoded.Size(), nil
}

// MaxBatchSize returns a size that an uncompressed batch with only the record does not exceed. It is cheap.
func MaxBatchSize(r Record) int { return protocol.BatchOverhead + r.EncodedSize() }

// Produce does the same as ProduceWithin, for a topic whose limit is not known.
func (p *Producer) Produce(ctx context.Context, tp TopicPartition, records []Record) ProduceResult {
	return p.ProduceWithin(ctx, tp, records, BatchLimit{})
}

// ProduceWithin writes records to a partition in their order, in one or more batches, and returns when each record's
// fate is known. The topic and offset in a record are ignored. A rejected record does not affect others: the batch is
// split until the rejected record is alone. Any other failure ends the call: after TopicRefused the remaining records
// are TopicRefused too, and otherwise they are NotSent with ErrNotTried.
//
// When ctx ends, the records of the batch in progress are InDoubt if the broker may have written them, and otherwise
// NotSent; all later records are NotSent. The bytes of a batch in doubt may still reach the broker until the
// RequestTimeout of its last try has passed. The caller must not change records during the call, nor before the
// RequestTimeout of the last try has passed.
func (p *Producer) ProduceWithin(ctx context.Context, tp TopicPartition, records []Record, limit BatchLimit) ProduceResult {
	out := ProduceResult{Records: make([]RecordResult, len(records))}
	if len(records) == 0 {
		return out
	}
	l := p.lane(tp)
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		err := fmt.Errorf("%w: the partition is busy: %w", ErrNotTried, ctx.Err())
		fail(out.Records, &ProduceError{NotSent, Classify(err), err})
		return out
	}
	w := &write{producer: p, lane: l, limit: limit, result: &out}
	most := p.cfg.MaxBatchBytes
	if limit.Bytes > 0 {
		most = min(most, limit.Bytes)
	}
	for start := 0; start < len(records); {
		end := batchEnd(records, start, most)
		if err := w.batch(ctx, records[start:end], out.Records[start:end]); err != nil {
			fail(out.Records[end:], unsent(err))
			break
		}
		start = end
	}
	return out
}

// unsent returns the error for the records that were not sent because an earlier record of the call failed with err.
func unsent(err *ProduceError) *ProduceError {
	if err.Fate == TopicRefused {
		return err
	}
	return &ProduceError{NotSent, err.Class, fmt.Errorf("%w: an earlier one failed: %w", ErrNotTried, err.Err)}
}

func fail(results []RecordResult, err *ProduceError) {
	for i := range results {
		results[i] = RecordResult{Offset: OffsetUnknown, Err: err}
	}
}

// batchEnd returns the index after the last record of the batch that begins with the record at index start.
func batchEnd(records []Record, start, limit int) int {
	total := protocol.BatchOverhead
	for i := start; i < len(records); i++ {
		total += records[i].EncodedSize()
		if total > limit && i > start {
			return i
		}
	}
	return len(records)
}

// lane serializes the writes to a partition. Only a goroutine that has put a value into turn may use the other fields,
// until it takes the value out.
type lane struct {
	tp   TopicPartition
	turn chan struct{}
	// id and sequence of the next batch; known is false before the first batch and after a batch in doubt: then a new
	// producer id is needed.
	known    bool
	id       int64
	epoch    int16
	sequence int32
}

func (p *Producer) lane(tp TopicPartition) *lane {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.lanes[tp]
	if l == nil {
		l = &lane{tp: tp, turn: make(chan struct{}, 1)}
		p.lanes[tp] = l
	}
	return l
}

// identify gets a new producer id when the lane has none.
func (l *lane) identify(ctx context.Context, pool *conn.Pool, leader int32, timeout time.Duration) error {
	if l.known {
		return nil
	}
	req := &initproducerid.Request{TransactionTimeoutMs: 60_000, ProducerID: -1, ProducerEpoch: -1}
	got, err := conn.Ask(ctx, pool, leader, timeout, protocol.Message[*initproducerid.Response](req))
	if err != nil {
		return err
	}
	if err := protocol.CodeError(got.ErrorCode); err != nil {
		return fmt.Errorf("get a producer id, which needs the permission to write to a topic: %w", err)
	}
	l.known, l.id, l.epoch, l.sequence = true, got.ProducerID, got.ProducerEpoch, 0
	return nil
}

// advance adds n to the sequence, which starts again at 0 after its largest value, as brokers expect.
func (l *lane) advance(n int) {
	if left := math.MaxInt32 - int(l.sequence); n > left {
		l.sequence = int32(n - left - 1)
		return
	}
	l.sequence += int32(n)
}
