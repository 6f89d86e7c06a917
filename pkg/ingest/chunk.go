package ingest

import (
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
)

// chunk is a range of one partition's offsets and the records in it.
type chunk struct {
	p        *partition
	from, to int64
	records  []broker.Record
	bytes    int64
	reserved int64  // reserved memory, released when the chunk is stored
	done     func() // called when the chunk is stored; may be nil
}

// The largest size of a batch and of a chunk. More than a thousand rows in a statement hardly store more rows in a
// second, and a limit of a few megabytes keeps a statement short. Even larger statements are slower, because PostgreSQL
// keeps a statement's rows for its triggers in memory only up to work_mem, whose default holds about a thousand rows of
// 1 KB.
const (
	batchRows  = 1000
	batchBytes = 4 << 20
)

// cut splits the fetched records of p into chunks. The last chunk extends to the next offset to fetch, past control
// records and gaps.
func cut(p *partition, got broker.FetchedPartition) []chunk {
	var chunks []chunk
	c, first := chunk{p: p, from: p.next}, 0
	for n := range got.Records {
		size := got.Records[n].Memory()
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

// split returns a chunk with the first rows of c, and a chunk with the rest, or nil when there is no rest. Each part
// holds its share of the reserved memory.
func (c chunk) split(rows int) (first chunk, rest *chunk) {
	if len(c.records) <= rows {
		return c, nil
	}
	middle, left := c.records[rows].Offset, c
	first, left.from = c, middle
	first.to, first.records, left.records = middle, c.records[:rows], c.records[rows:]
	first.bytes, first.done = 0, nil
	for n := range first.records {
		first.bytes += first.records[n].Memory()
	}
	left.bytes -= first.bytes
	first.reserved = min(c.reserved, first.bytes)
	left.reserved -= first.reserved
	c.p.waiting.Add(1)
	return first, &left
}

func zapPartition(p *partition) []zap.Field {
	return []zap.Field{zap.String("topic", p.Topic), zap.Int32("partition", p.Partition), zap.Int64("offset", p.next)}
}
