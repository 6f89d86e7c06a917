package protocol

import (
	"cmp"
	"errors"
	"io"
	"slices"
	"time"

	kafkaprotocol "github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"

	"github.com/dlq-manager/dlq-manager/pkg/broker/internal/inflate"
)

// FetchRequest asks one broker for records of partitions that it leads. The broker fills its answer in the order of
// Partitions, so a caller that fetches in a loop rotates Partitions; a record larger than every limit is delivered when
// its partition is the first that has data.
type FetchRequest struct {
	// Leader is a broker's id, from Topics.
	Leader     int32
	Partitions []FetchPartition
	// MaxWait is how long the broker waits for MinBytes (at least 1) to come.
	MaxWait  time.Duration
	MinBytes int32
	// MaxBytes limits the answer, DefaultFetchBytes when 0. The broker sends the first batch completely even if it is
	// larger than MaxBytes. Decompression and records may use MaxBytes of memory in addition, and the same once more for
	// the last batch. Partitions for which no memory is left are answered without records.
	MaxBytes int32
	// MaxBatchBytes limits an answer that is larger than MaxBytes because of a large batch; 0 means no limit. The part of
	// the answer that exceeds this limit is dropped, and Heavy of its partition is set.
	MaxBatchBytes int64
	// Memory is the memory for decoding, nil for no limit.
	Memory *MemoryReservation
	// Limits of the records, DefaultLimits when zero.
	Limits Limits
	// Stream leaves the answer undecoded, to be read by each partition's Portions.
	Stream bool
	// ReadCommitted leaves out records of aborted transactions, and delivers no record after the start of an open
	// transaction before that transaction has ended. Without ReadCommitted, all records are delivered.
	ReadCommitted bool
}

// FetchPartition is a partition and the offset to read from. MaxBytes 0 means DefaultPartitionBytes.
type FetchPartition struct {
	TopicPartition
	Offset   int64
	MaxBytes int32
	// SkipUnreadable replaces unreadable records by placeholders (see Defect) instead of returning ErrCorrupt.
	SkipUnreadable bool
}

// Sizes that Fetch uses where a request says 0.
const (
	DefaultFetchBytes     = 16 << 20
	DefaultPartitionBytes = 1 << 20
)

// FetchResponse has one entry for each partition of the request, in its order.
type FetchResponse struct {
	Partitions []FetchedPartition
	// Throttle is how long the broker asks the client to pause because of a quota; during this time the broker does not
	// answer requests.
	Throttle time.Duration
	// Starved means that records are missing because Memory was used up.
	Starved bool
}

// FetchedPartition is the answer for one partition. When Err is set, Records are those before the damage.
type FetchedPartition struct {
	TopicPartition
	// HighWatermark, LastStable and LogStart are -1 when the broker did not return them.
	HighWatermark int64
	LastStable    int64
	LogStart      int64
	// Next is the offset to fetch from next. It is after everything that was read: records, control records, records
	// of aborted transactions, and gaps of compaction between them. It never decreases.
	Next     int64
	Records  []Record
	controls []int64 // the offsets of control records, in order
	// Heavy is set when the batch at Next is too large to be decoded together with others, otherwise 0. A value above 0 is
	// the size of the answer, and the caller must fetch the partition with Stream.
	Heavy int
	// Portions reads the records of an answer that was fetched with Stream; nil when there are none.
	Portions Portions
	// Err is the partition's error, nil for none. It usually wraps ErrOutOfRange, ErrNotLeader, ErrUnknownTopic,
	// ErrUnauthorized, ErrUnavailable or ErrCorrupt.
	Err error
}

// WithControls returns records and control records in the order of the log.
func (p FetchedPartition) WithControls() []Record {
	if len(p.controls) == 0 {
		return p.Records
	}
	all := slices.Clone(p.Records)
	for _, offset := range p.controls {
		all = append(all, Record{TopicPartition: p.TopicPartition, Offset: offset, Control: true})
	}
	slices.SortFunc(all, func(a, b Record) int { return cmp.Compare(a.Offset, b.Offset) })
	return all
}

// Portions reads a broker's answer for one partition; see Cursor.Read.
type Portions interface {
	Read(memory *MemoryReservation, bytes int64) (p FetchedPartition, done bool, err error)
}

// ReadCommitted is the isolation level of a request that leaves out records of open and of aborted transactions.
const ReadCommitted = 1

// message returns the request in kafka-go's form, without a fetch session; topics in the order of the partitions.
func (req FetchRequest) message() *fetch.Request {
	m := &fetch.Request{
		ReplicaID: -1, MaxWaitTime: int32(req.MaxWait.Milliseconds()), MinBytes: max(1, req.MinBytes),
		MaxBytes: req.MaxBytes, SessionEpoch: -1,
	}
	if req.ReadCommitted {
		m.IsolationLevel = ReadCommitted
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

// rawPartition is a broker's answer for one partition.
type rawPartition struct {
	got     FetchedPartition
	aborted []abortedTransaction
	data    []byte
}

// FetchDecoder turns the answer to one request into records.
type FetchDecoder struct {
	req    FetchRequest
	index  map[TopicPartition]int
	memory *MemoryReservation
}

// NewFetchDecoder returns the decoder for the answer to req, whose Partitions must not change.
func NewFetchDecoder(req FetchRequest) *FetchDecoder {
	d := &FetchDecoder{req: req, index: make(map[TopicPartition]int, len(req.Partitions)), memory: req.Memory}
	for i, p := range req.Partitions {
		d.index[p.TopicPartition] = i
	}
	if d.memory == nil {
		d.memory = unlimitedMemory()
	}
	return d
}

// Request returns the request itself.
func (d *FetchDecoder) Request() Request[RawResponse] {
	m := d.req.message()
	exchange := func(rw io.ReadWriter, v Versions) (RawResponse, error) {
		version := v[kafkaprotocol.Fetch]
		if err := kafkaprotocol.WriteRequest(rw, version, correlation, ClientID, m); err != nil {
			return RawResponse{}, err
		}
		return d.read(rw, version)
	}
	throttle := func(res RawResponse) time.Duration { return res.throttle }
	return Request[RawResponse]{Key: kafkaprotocol.Fetch, Exchange: exchange, Throttle: throttle}
}

// RawResponse is an answer that is not decoded.
type RawResponse struct {
	partitions []rawPartition
	throttle   time.Duration
}

// unanswered returns a response in which no partition has records, and in which Next of each partition is the requested
// offset.
func (d *FetchDecoder) unanswered() RawResponse {
	out := RawResponse{partitions: make([]rawPartition, len(d.req.Partitions))}
	for i, p := range d.req.Partitions {
		out.partitions[i].got = FetchedPartition{
			TopicPartition: p.TopicPartition, Next: p.Offset, HighWatermark: -1, LastStable: -1, LogStart: -1,
		}
	}
	return out
}

// read reads a Fetch response of one of the versions 4 to 11. It may be called again when the request is sent again.
func (d *FetchDecoder) read(r io.Reader, version int16) (RawResponse, error) {
	out := d.unanswered()
	s, err := openResponse(r)
	if err != nil {
		return out, err
	}
	out.throttle = time.Duration(s.int32()) * time.Millisecond
	if version >= 7 {
		if code := s.int16(); code != 0 {
			return out, CodeError(code)
		}
		s.int32() // session
	}
	left := int(max(d.req.MaxBatchBytes, int64(d.req.MaxBytes)))
	if d.req.MaxBatchBytes == 0 {
		left = noLimit
	}
	for range s.count() {
		topic := s.string()
		for range s.count() {
			left -= d.readPartition(s, version, topic, &out, left)
		}
	}
	if s.err == nil {
		s.skip(s.left)
	}
	return out, s.err
}

// readPartition reads the part of a response that belongs to one partition. It drops the records when they have more
// bytes than left, and returns the number of bytes that it kept.
func (d *FetchDecoder) readPartition(s *stream, version int16, topic string, out *RawResponse, left int) int {
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
		s.int32() // preferred replica; there is none, because the request names no rack
	}
	var data []byte
	size := int(s.int32())
	if size > left {
		got.Heavy = size
		s.skip(size)
	} else {
		data = s.block(size)
	}
	i, asked := d.index[tp]
	if s.err != nil || !asked {
		return 0
	}
	raw := &out.partitions[i]
	raw.aborted, raw.data = aborted, data
	p := &raw.got
	p.HighWatermark, p.LastStable, p.LogStart, p.Heavy = got.HighWatermark, got.LastStable, got.LogStart, got.Heavy
	if p.Err = CodeError(code); p.Err != nil {
		raw.data, p.Heavy = nil, 0
	}
	return len(data)
}

// minShare is the memory for decoding that Fetch allows for a single batch, even if the request's MaxBytes is smaller.
const minShare = 256 << 10

// cursor returns a cursor over the answer for the i-th partition.
func (d *FetchDecoder) cursor(i int, raw *rawPartition) *Cursor {
	c := newCursor(raw.got.TopicPartition, raw.data, raw.aborted, raw.got.Next)
	c.high, c.skipUnreadable = raw.got.HighWatermark, d.req.Partitions[i].SkipUnreadable
	if d.req.Limits != (Limits{}) {
		c.limits = d.req.Limits
	}
	return c
}

// Decode decodes the whole answer.
func (d *FetchDecoder) Decode(raw RawResponse) FetchResponse {
	res := FetchResponse{Throttle: raw.throttle, Partitions: make([]FetchedPartition, len(raw.partitions))}
	for i := range raw.partitions {
		p := &res.Partitions[i]
		*p = raw.partitions[i].got
		switch {
		case len(raw.partitions[i].data) == 0:
		case d.req.Stream:
			c := d.cursor(i, &raw.partitions[i])
			c.inflater = new(inflate.Inflater)
			p.Portions = c
		default:
			res.Starved = d.partition(p, d.cursor(i, &raw.partitions[i])) || res.Starved
		}
		raw.partitions[i].data = nil
	}
	return res
}

// partition fills p with the records of c. It stops between two batches when the decoded records of the answer have
// used MaxBytes of memory. It leaves out a batch that alone needs more memory; the caller must read that batch with
// Stream. The result starved means that no memory could be reserved.
func (d *FetchDecoder) partition(p *FetchedPartition, c *Cursor) (starved bool) {
	for d.memory.taken < int64(d.req.MaxBytes) {
		records, controls, next, mark := len(p.Records), len(p.controls), p.Next, d.memory.taken
		before := len(c.data)
		d.memory.bound = mark + max(int64(d.req.MaxBytes), minShare)
		if needsInflater(c.data) {
			c.inflater = inflate.Acquire()
		}
		err := c.step(p, d.memory, noLimit)
		if c.inflater != nil {
			inflate.Release(c.inflater)
			c.inflater = nil
		}
		switch {
		case err == nil:
			continue
		case errors.Is(err, io.EOF):
			return false
		case errors.Is(err, errHeavy):
			p.Heavy = before
		}
		clear(p.Records[records:])
		p.Records, p.controls, p.Next = p.Records[:records], p.controls[:controls], next
		d.memory.back(mark)
		return errors.Is(err, errNoMemory)
	}
	return false
}

// needsInflater reports whether the first batch in data is compressed.
func needsInflater(data []byte) bool {
	if len(data) <= atAttributes+1 {
		return false
	}
	if data[atMagic] < 2 {
		return data[atLegacyAttributes]&7 != 0
	}
	return data[atAttributes+1]&7 != 0
}
