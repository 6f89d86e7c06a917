package ingest

import (
	"bytes"
	"crypto/sha256"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

func records(from int64, sizes ...int) []broker.Record {
	out := make([]broker.Record, len(sizes))
	for n, size := range sizes {
		out[n] = broker.Record{TopicPartition: part("a.dlq.v1", 0), Offset: from + int64(n), Value: make([]byte, size)}
	}
	return out
}

func TestCut(t *testing.T) {
	t.Parallel()
	type span struct {
		from, to int64
		rows     int
	}
	mega := 1 << 20
	tests := map[string]struct {
		next    int64
		records []broker.Record
		to      int64
		want    []span
	}{
		"NothingButControlRecords": {5, nil, 9, []span{{5, 9, 0}}},
		"GapsBelongToTheirChunk":   {5, records(8, 1, 1), 20, []span{{5, 20, 2}}},
		"AFullBatchIsOneChunk":     {0, records(0, make([]int, 1000)...), 1000, []span{{0, 1000, 1000}}},
		"AThousandRowsAtMost":      {0, records(0, make([]int, 2001)...), 2003, []span{{0, 1000, 1000}, {1000, 2000, 1000}, {2000, 2003, 1}}},
		"FourMegabytesAtMost":      {0, records(0, mega, mega, mega, mega, mega), 5, []span{{0, 3, 3}, {3, 5, 2}}},
		"ALargerRecordComesAlone":  {0, records(0, 10, 9*mega, 10), 3, []span{{0, 1, 1}, {1, 2, 1}, {2, 3, 1}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &partition{TopicPartition: part("a.dlq.v1", 0), next: test.next}
			got := cut(p, broker.FetchedPartition{Next: test.to, Records: test.records})
			check.Require(t, len(got) == len(test.want), "chunks = %d, want %d", len(got), len(test.want))
			for n, c := range got {
				check.Equal(t, (span{c.from, c.to, len(c.records)}), test.want[n], "chunk %d", n)
				for _, r := range c.records {
					check.True(t, r.Offset >= c.from && r.Offset < c.to,
						"chunk %d from %d to %d holds offset %d", n, c.from, c.to, r.Offset)
				}
			}
		})
	}
}

func TestBatchHasOneRangeForAPartition(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := &partition{TopicPartition: part("a.dlq.v1", 0), ref: repository.TopicRef{TopicID: 1, Incarnation: 1}}
	b := &partition{TopicPartition: part("b.dlq.v1", 0), ref: repository.TopicRef{TopicID: 2, Incarnation: 2}}
	got, _ := w.i.batch([]chunk{
		{p: a, from: 0, to: 2, records: records(0, 1, 1)},
		{p: b, from: 7, to: 9, records: records(7, 1)},
		{p: a, from: 2, to: 5, records: records(2, 1, 1)},
	})
	want := []repository.Range{
		{Partition: repository.Partition{Incarnation: 1}, From: 0, To: 5},
		{Partition: repository.Partition{Incarnation: 2}, From: 7, To: 9},
	}
	check.True(t, len(got.Ranges) == 2 && got.Ranges[0] == want[0] && got.Ranges[1] == want[1],
		"ranges = %+v, want %+v", got.Ranges, want)
	check.Equal(t, len(got.Messages), 5, "messages")
}

func TestWriterGathersUpToAFullBatch(t *testing.T) {
	t.Parallel()
	give := func(rows int, bytes int64) chunk {
		return chunk{p: &partition{}, records: make([]broker.Record, rows), bytes: bytes}
	}
	tests := map[string]struct {
		first       chunk
		more        []chunk
		taken, rows int
		held        int // number of rows of the chunk that gather returns for the next batch; -1 when it returns none
	}{
		"ALoneChunkIsNotKeptWaiting": {give(1, 1), nil, 1, 1, -1},
		"WhatWaitsIsAdded":           {give(300, 1), []chunk{give(300, 1), give(300, 1)}, 3, 900, -1},
		"AFullBatchTakesNoMore":      {give(400, 1), []chunk{give(600, 1), give(500, 1)}, 2, 1000, -1},
		"RowsAreBounded":             {give(400, 1), []chunk{give(400, 1), give(500, 1)}, 3, 1000, 300},
		"BytesAreBounded":            {give(1, batchBytes-1), []chunk{give(1, 1), give(1, 1)}, 2, 2, 1},
		"ARangeWithoutRecords":       {give(1000, 1), nil, 1, 1000, -1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWriter(newWorld(t).i, nil, nil)
			for _, c := range test.more {
				w.chunks <- c
			}
			batch, left := w.gather(test.first)
			rows, held := 0, -1
			for _, c := range batch {
				rows += len(c.records)
			}
			if left != nil {
				held = len(left.records)
			}
			if len(batch) != test.taken || rows != test.rows || held != test.held {
				t.Errorf("gather = %d chunks of %d rows, held %d; want %d of %d, %d", len(batch), rows, held, test.taken, test.rows, test.held)
			}
		})
	}
}

func TestASplitChunkLosesNothing(t *testing.T) {
	t.Parallel()
	p := &partition{}
	p.waiting.Store(1)
	got := broker.FetchedPartition{Records: records(0, 5, 1, 1, 7), Next: 9} // the next offset is 9, so a gap follows the last record
	whole := cut(p, got)[0]
	for _, reserved := range []int64{whole.bytes, whole.bytes / 2, 0} {
		whole.reserved = reserved
		first, rest := whole.split(3)
		check.Require(t, rest != nil, "split(3) of 4 records leaves nothing, want the last")
		check.True(t, first.from == 0 && first.to == rest.from && rest.to == 9 && rest.from == rest.records[0].Offset,
			"split = %d to %d, %d to %d; want ranges that follow one another to 9", first.from, first.to, rest.from, rest.to)
		check.True(t, len(first.records) == 3 && len(rest.records) == 1,
			"split = %d and %d records, want 3 and 1", len(first.records), len(rest.records))
		check.True(t, first.bytes+rest.bytes == whole.bytes && first.bytes == sizeOf([]chunk{first}),
			"bytes = %d and %d, want %d in all", first.bytes, rest.bytes, whole.bytes)
		check.True(t, first.reserved+rest.reserved == reserved && first.reserved >= 0 && rest.reserved >= 0,
			"reserved = %d and %d, want %d in all", first.reserved, rest.reserved, reserved)
	}
	check.Equal(t, p.waiting.Load(), 4, "chunks that the partition waits for, one more for each split")
	same, rest := whole.split(4)
	check.True(t, rest == nil && len(same.records) == 4, "split(4) of 4 records = %d and %v, want all", len(same.records), rest)
}

func TestMessageKeepsEveryByte(t *testing.T) {
	t.Parallel()
	deep := bytes.Repeat([]byte("["), 20000)
	tests := map[string][]byte{
		"Tombstone":           nil,
		"Empty":               {},
		"NULInsideJSON":       []byte(`{"a":"x\u0000y"}`),
		"LoneSurrogate":       []byte(`{"a":"\ud800"}`),
		"RawByteInsideJSON":   []byte("{\"a\":\"\xff\"}"),
		"NumberOutOfRange":    []byte(`1e200000`),
		"NestedVeryDeep":      append(deep, bytes.Repeat([]byte("]"), 20000)...),
		"NUL":                 {0},
		"NotText":             {0xff, 0xfe, 0x00},
		"NotJSON":             []byte("{"),
		"LargeButWithinLimit": make([]byte, 10<<20),
	}
	w := newWorld(t)
	p := &partition{TopicPartition: part("a.dlq.v1", 3), ref: repository.TopicRef{TopicID: 4, Incarnation: 5}}
	for name, poison := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			headers := []entity.Header{{Key: "", Value: poison}, {Key: "x", Value: nil}, {Key: "x", Value: []byte{}}, {Key: "error", Value: poison}, {Key: string(poison[:min(9, len(poison))]), Value: poison}}
			m := w.i.message(w.i.decoder.Load(), p, &broker.Record{Offset: 7, Key: poison, Value: poison, Headers: headers})
			if !same(m.Record.Value, poison) || !same(m.Record.Key, poison) || m.Record.Size != int64(len(poison)) {
				t.Errorf("value, key, size = %.20q, %.20q, %d; want %.20q, %d", m.Record.Value, m.Record.Key, m.Record.Size, poison, len(poison))
			}
			check.Require(t, len(m.Record.Headers) == len(headers), "headers = %d, want %d", len(m.Record.Headers), len(headers))
			for n, h := range m.Record.Headers {
				check.True(t, h.Key == headers[n].Key && same(h.Value, headers[n].Value),
					"header %d = %.20q: %.20q, want %.20q: %.20q", n, h.Key, h.Value, headers[n].Key, headers[n].Value)
			}
			if m.Status != entity.Pending || m.ErrorMessage == "" || m.MaxRetries != entity.DefaultMaxRetries || m.Source.Offset != 7 ||
				m.Source.Partition != 3 || m.Source.TopicID != 4 || m.Source.Incarnation != 5 {
				t.Errorf("message = %v, want a pending one at its position", m.Source)
			}
		})
	}
}

// same reports whether two values are equal. A null value is not equal to an empty one.
func same(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }

func TestMessageOfARecordOverALimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := &partition{TopicPartition: part("a.dlq.v1", 0)}
	m := w.i.message(w.i.decoder.Load(), p, &broker.Record{
		Key: []byte("key"), Headers: []entity.Header{{Key: "h", Value: []byte("12345")}},
		Defect: &broker.Defect{Limit: broker.LimitRecordBytes, Size: 4, SHA256: sha256.Sum256([]byte("1234")), ValueOmitted: true},
	})
	if r := m.Record; r.State != entity.ValueOverLimit || r.Value != nil || r.Size != 4 || len(r.SHA256) != 32 || r.Limit != "max_record_bytes" {
		t.Errorf("record = %+v, want state over limit, no value, size 4 and a digest", r)
	}
	check.True(t, len(m.Record.Headers) == 1 && string(m.Record.Key) == "key" && m.Record.KeepsHeaders(),
		"headers, key = %v, %q; want them kept", m.Record.Headers, m.Record.Key)
	m = w.i.message(w.i.decoder.Load(), p, &broker.Record{Value: []byte("123"), Defect: &broker.Defect{Limit: broker.LimitHeaders, Size: 3}})
	if r := m.Record; r.State != entity.ValueOverLimit || string(r.Value) != "123" || r.Limit != "max_headers" || r.KeepsHeaders() {
		t.Errorf("record with too many headers = %+v, want its value and the limit", r)
	}
}

func TestMessageOfOffsetsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := &partition{TopicPartition: part("a.dlq.v1", 0)}
	m := w.i.message(w.i.decoder.Load(), p, &broker.Record{Offset: 3, Defect: &broker.Defect{Reason: "unknown codec 7", Last: 9}})
	if r := m.Record; r.State != entity.ValueUnreadable || r.Unreadable != "unknown codec 7" || r.LastOffset != 9 {
		t.Errorf("record = %+v, want it unreadable up to offset 9", r)
	}
	if want := "offsets 3 to 9 cannot be read: unknown codec 7"; m.ErrorMessage != want || m.Source.Offset != 3 {
		t.Errorf("message at %d = %q, want %q at 3", m.Source.Offset, m.ErrorMessage, want)
	}
}
