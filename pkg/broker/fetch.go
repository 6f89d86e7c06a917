package broker

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"
	"unsafe"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"
)

// FetchRequest asks one broker for records of partitions that it leads. The
// broker fills its answer in the order of Partitions, so a caller that fetches
// in a loop rotates them; a record larger than every limit is delivered when
// its partition is the first that has data.
type FetchRequest struct {
	// Leader is a broker's id, from Topics.
	Leader     int32
	Partitions []FetchPartition
	// MaxWait is how long the broker waits for MinBytes (at least 1) to come.
	MaxWait  time.Duration
	MinBytes int32
	// MaxBytes bounds the answer, DefaultFetchBytes when 0. The first batch is
	// delivered whole even if it alone is larger. What decompression and the
	// records themselves take on top is bounded by as much again, give or take
	// a batch; partitions whose turn does not come are answered without records.
	MaxBytes int32
	// ReadCommitted leaves out records of aborted transactions and waits for
	// open ones to end. Without it they are delivered.
	ReadCommitted bool
}

// FetchPartition is a partition and the offset to read from. MaxBytes bounds
// its share of the answer, DefaultPartitionBytes when 0.
type FetchPartition struct {
	TopicPartition
	Offset   int64
	MaxBytes int32
}

// Sizes that Fetch uses where a request says 0.
const (
	DefaultFetchBytes     = 16 << 20
	DefaultPartitionBytes = 1 << 20
)

// FetchResponse has one entry for each partition of the request, in its order.
type FetchResponse struct {
	Partitions []FetchedPartition
	// Throttle is how long the broker wants to be left alone for a quota; it
	// answers nothing in the meantime.
	Throttle time.Duration
}

// FetchedPartition is what a fetch brought for one partition. Records may be
// there although Err is not nil: those before a corrupt batch.
type FetchedPartition struct {
	TopicPartition
	// HighWatermark, LastStable and LogStart are -1 when the broker did not say.
	HighWatermark int64
	LastStable    int64
	LogStart      int64
	// Next is the offset to fetch from next. It is past everything that was
	// looked at: records, control records, records of aborted transactions,
	// and what compaction removed between them. It never goes back.
	Next    int64
	Records []Record
	// controls are the offsets of control records, in order.
	controls []int64
	// Err wraps ErrOutOfRange, ErrNotLeader, ErrUnknownTopic, ErrUnauthorized,
	// ErrUnavailable or ErrCorrupt where it can.
	Err error
}

// Fetch reads from many partitions of one leader in one request. An error is
// about the request as a whole; what befell a single partition is in its entry.
//
// The answer holds memory for as long as any of its records is kept: one block
// for each partition, and one for each compressed batch.
func (c *Cluster) Fetch(ctx context.Context, req FetchRequest) (FetchResponse, error) {
	if len(req.Partitions) == 0 {
		return FetchResponse{}, nil
	}
	if req.MaxBytes <= 0 {
		req.MaxBytes = DefaultFetchBytes
	}
	// A connection may still be at work on a request that was cancelled.
	req.Partitions = slices.Clone(req.Partitions)
	d, m := newFetchDecoder(req), req.message()
	res, err := ask[FetchResponse](ctx, c, req.Leader, protocol.Fetch, requestTimeout+req.MaxWait,
		func(rw io.ReadWriter, v versions) (any, error) {
			version := v[protocol.Fetch]
			if err := protocol.WriteRequest(rw, version, correlation, clientID, m); err != nil {
				return nil, err
			}
			return d.read(rw, version)
		})
	if err != nil {
		return FetchResponse{}, fmt.Errorf("fetch from broker %d: %w", req.Leader, err)
	}
	return res, nil
}

// message is the request in kafka-go's form, without a fetch session. The
// topics keep the order in which their first partitions come.
func (req FetchRequest) message() *fetch.Request {
	m := &fetch.Request{
		ReplicaID:    -1,
		MaxWaitTime:  int32(req.MaxWait.Milliseconds()),
		MinBytes:     max(1, req.MinBytes),
		MaxBytes:     req.MaxBytes,
		SessionEpoch: -1,
	}
	if req.ReadCommitted {
		m.IsolationLevel = 1
	}
	at := map[string]int{}
	for _, p := range req.Partitions {
		i, ok := at[p.Topic]
		if !ok {
			i = len(m.Topics)
			at[p.Topic] = i
			m.Topics = append(m.Topics, fetch.RequestTopic{Topic: p.Topic})
		}
		limit := p.MaxBytes
		if limit <= 0 {
			limit = DefaultPartitionBytes
		}
		m.Topics[i].Partitions = append(m.Topics[i].Partitions, fetch.RequestPartition{
			Partition: p.Partition, CurrentLeaderEpoch: -1, FetchOffset: p.Offset, LogStartOffset: -1,
			PartitionMaxBytes: limit,
		})
	}
	return m
}

// fetchDecoder turns one answer into records while it arrives.
type fetchDecoder struct {
	req    FetchRequest
	index  map[TopicPartition]int
	budget int // bytes that decoding may still take
}

func newFetchDecoder(req FetchRequest) *fetchDecoder {
	d := &fetchDecoder{req: req, index: make(map[TopicPartition]int, len(req.Partitions))}
	for i, p := range req.Partitions {
		d.index[p.TopicPartition] = i
	}
	return d
}

// unanswered is the response before anything was read.
func (d *fetchDecoder) unanswered() FetchResponse {
	out := FetchResponse{Partitions: make([]FetchedPartition, len(d.req.Partitions))}
	for i, p := range d.req.Partitions {
		out.Partitions[i] = FetchedPartition{
			TopicPartition: p.TopicPartition, Next: p.Offset, HighWatermark: -1, LastStable: -1, LogStart: -1,
		}
	}
	return out
}

// read decodes versions 4 to 11. It may be called again for another answer.
func (d *fetchDecoder) read(r io.Reader, version int16) (FetchResponse, error) {
	d.budget = int(d.req.MaxBytes)
	out := d.unanswered()
	s, err := openResponse(r)
	if err != nil {
		return out, err
	}
	out.Throttle = time.Duration(s.int32()) * time.Millisecond
	if version >= 7 {
		if code := s.int16(); code != 0 {
			return out, codeError(code)
		}
		s.int32() // session
	}
	for range s.count() {
		topic := s.string()
		for range s.count() {
			d.readPartition(s, version, topic, &out)
		}
	}
	if s.err == nil {
		s.skip(s.left)
	}
	return out, s.err
}

func (d *fetchDecoder) readPartition(s *stream, version int16, topic string, out *FetchResponse) {
	tp := TopicPartition{topic, s.int32()}
	code := s.int16()
	got := FetchedPartition{HighWatermark: s.int64(), LastStable: s.int64(), LogStart: -1}
	if version >= 5 {
		got.LogStart = s.int64()
	}
	var aborted []abortedTransaction
	for range s.count() {
		aborted = append(aborted, abortedTransaction{producer: s.int64(), first: s.int64()})
	}
	if version >= 11 {
		s.int32() // preferred replica: we name no rack
	}
	data := s.block(int(s.int32()))
	i, asked := d.index[tp]
	if s.err != nil || !asked {
		return
	}
	p := &out.Partitions[i]
	p.HighWatermark, p.LastStable, p.LogStart = got.HighWatermark, got.LastStable, got.LogStart
	if p.Err = codeError(code); p.Err == nil {
		d.decode(p, data, aborted)
	}
}

// recordCost and headerCost are what a decoded Record and Header take, without
// the bytes they point to: much for a log of tiny records.
const (
	recordCost = int(unsafe.Sizeof(Record{}))
	headerCost = int(unsafe.Sizeof(Header{}))
)

// decode fills p with what data holds from p.Next on. It stops early, and in
// good order, when the answer has used up its budget.
func (d *fetchDecoder) decode(p *FetchedPartition, data []byte, aborted []abortedTransaction) {
	txns, common := newTransactions(aborted), newShared()
	from := p.Next
	for d.budget > 0 {
		b, rest, ok, err := nextBatch(data)
		if err != nil || !ok {
			p.Err = err
			return
		}
		data = rest
		if b.legacy || txns.counts(b) {
			before, given := len(p.Records), common.given
			var inflated int
			p.Records, inflated, err = b.appendTo(p.Records, p.TopicPartition, from, common)
			d.budget -= inflated + recordCost*(len(p.Records)-before) + headerCost*(common.given-given)
			if err != nil {
				p.Err = err
				return
			}
		}
		for at := max(b.base, from); b.control() && !b.legacy && at <= b.last; at++ {
			p.controls = append(p.controls, at)
		}
		p.Next = max(p.Next, b.last+1)
		if b.legacy && len(p.Records) > 0 {
			p.Next = max(p.Next, p.Records[len(p.Records)-1].Offset+1)
		}
	}
}
