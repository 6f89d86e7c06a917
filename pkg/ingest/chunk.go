package ingest

import (
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
)

// chunk is a range of offsets of one partition, with the records in the range.
type chunk struct {
	p        *partition
	from, to int64
	records  []broker.Record
	bytes    int64
	reserved int64  // bytes of memory reserved for the records; released when the chunk is stored
	done     func() // called when the chunk is stored; nil for no call
}

// batchRows and batchBytes limit the size of a batch and of a chunk; a single larger record is a batch of its own. A
// statement with more than a thousand rows stores hardly more rows a second, and a limit of a few megabytes keeps
// statements short. Much larger statements are even slower, because PostgreSQL keeps the rows of a statement for its
// triggers in memory only up to work_mem, whose default is enough for about a thousand rows of 1 KB.
const (
	batchRows  = 1000
	batchBytes = 4 << 20
)

// cut splits the fetched records of p into chunks. The range of the last chunk ends at the next offset to fetch, so it
// includes control records and gaps.
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

// split returns a chunk with the first rows of c, and a chunk with the other rows; rest is nil when c has no more rows.
// Each of the two gets its share of the reserved memory.
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
