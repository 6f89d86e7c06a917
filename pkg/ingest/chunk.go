package ingest

import (
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
)

// chunk is a run of one partition's offsets and the records within it.
type chunk struct {
	p        *partition
	from, to int64
	records  []broker.Record
	bytes    int64
	room     int64 // of the budget, given back when the chunk is stored
}

// A chunk is at most so large, and a batch that is not full yet may take one more
// of the usual size: the knee of inserts a second lies at a thousand rows, a
// fetch of 1 KB records brings some six hundred for a partition, and a few
// megabytes keep one statement short.
const (
	batchRows  = 1000
	gatherRows = 1500
	batchBytes = 4 << 20
)

// cut splits what came for p. The last chunk reaches to the next offset to
// fetch, over control records and gaps.
func cut(p *partition, got broker.FetchedPartition) []chunk {
	var chunks []chunk
	c, first := chunk{p: p, from: p.next}, 0
	for n := range got.Records {
		size := recordBytes(&got.Records[n])
		if rows := n - first; rows == batchRows || rows > 0 && c.bytes+size > batchBytes {
			c.to, c.records = got.Records[n].Offset, got.Records[first:n]
			chunks = append(chunks, c)
			c, first = chunk{p: p, from: c.to}, n
		}
		c.bytes += size
	}
	c.to, c.records = got.Next, got.Records[first:]
	return append(chunks, c)
}

// What a record and a header take in memory beside their bytes.
const (
	recordCost = 128
	headerCost = 40
)

func recordBytes(r *broker.Record) int64 {
	n := len(r.Key) + len(r.Value) + recordCost
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value) + headerCost
	}
	return int64(n)
}

func zapPartition(p *partition) []zap.Field {
	return []zap.Field{zap.String("topic", p.Topic), zap.Int32("partition", p.Partition), zap.Int64("offset", p.next)}
}
