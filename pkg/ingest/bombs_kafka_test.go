package ingest

import (
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker/brokertest"
)

func (p *plant) produceBatch(topic string, batch []byte) {
	p.t.Helper()
	check.NoError(p.t, brokertest.Produce(p.ctx(), stacktest.Kafka(p.t)[0], topic, 0, batch))
}

// TestBombsAreStoredAndHoldUpNothing: every record that a broker accepts is stored, with those parts that do not exceed
// the limits.
func TestBombsAreStoredAndHoldUpNothing(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	bombs, other := p.create("bombs", 1), p.create("other", 1)
	batches := []brokertest.Record{
		{Value: 3, Fill: 'v', Headers: 16_000_000},
		{Key: []byte("k"), Value: 300 << 20, Fill: 'x', Headers: 1, Name: "h"},
		{Value: 5, Headers: 9_999, Name: "n"},
		{Value: 5, Headers: 2, Name: "n", Text: make([]byte, 600<<10)},
		{Value: 10 << 20, Fill: 'w'},
	}
	for _, r := range batches {
		p.produceBatch(bombs, brokertest.BatchOf(t, brokertest.Zstd, r))
	}
	stop := p.run()
	defer stop()
	p.produce(other, 0, 10)
	check.Eventually(p.t, "the other topic is stored", func() bool { return p.count(other) == 10 })
	check.Eventually(p.t, "the bombs are stored", func() bool { return p.count(bombs) == len(batches) })

	sum := sha256.New()
	brokertest.Repeat(sum, []byte{'x'}, 300<<20)
	for offset, want := range []struct {
		limit, sha any
		value      int64 // length in bytes of the stored value; -1 when no value is stored
		omitted    any
	}{
		{"max_headers", fmt.Sprintf("%x", sha256.Sum256([]byte("vvv"))), 3, int64(3)},
		{"max_record_bytes", fmt.Sprintf("%x", sum.Sum(nil)), -1, int64(300 << 20)},
		{nil, nil, 5, nil},
		{"max_header_bytes", fmt.Sprintf("%x", sha256.Sum256(make([]byte, 5))), 5, int64(5)},
		{nil, nil, 10 << 20, nil},
	} {
		var limit, sha, omitted any
		var value int64
		check.NoError(t, p.db.QueryRow(`
			SELECT m.defect->>'limit', encode(m.omitted_sha256, 'hex'), coalesce(octet_length(m.value), -1), m.omitted_size
			FROM dlq.messages m JOIN dlq.topics t ON t.id = m.dlq_topic_id WHERE t.name = $1 AND m.dlq_offset = $2`, bombs, offset).
			Scan(&limit, &sha, &value, &omitted))
		if text(limit) != text(want.limit) || text(sha) != text(want.sha) || value != want.value || text(omitted) != text(want.omitted) {
			t.Errorf("offset %d = %s, %s, %d, %s; want %s, %s, %d, %s", offset, text(limit), text(sha), value, text(omitted),
				text(want.limit), text(want.sha), want.value, text(want.omitted))
		}
	}
}

func text(v any) string { return fmt.Sprintf("%s", v) }

// TestABatchIsStoredInPortions: after a restart, which usually comes in the middle of a batch, each offset is stored
// exactly once.
func TestABatchIsStoredInPortions(t *testing.T) {
	t.Parallel()
	const n = 60
	p := newPlant(t)
	topic := p.create("portions", 1)
	records := make([]brokertest.Record, n)
	for i := range records {
		records[i] = brokertest.Record{Key: fmt.Append(nil, i), Value: 300_000, Fill: byte(i)}
	}
	p.produceBatch(topic, brokertest.BatchOf(t, brokertest.Zstd, records...))
	small := func() *Ingester {
		i := p.ingester()
		i.cfg.BufferBytes = 2 << 20
		return i
	}
	stop := p.runThis(small())
	check.Eventually(p.t, "a part of the batch is stored", func() bool { return p.count(topic) > 0 })
	stop()
	if got := p.count(topic); got == n {
		t.Log("the whole batch was stored before the restart")
	}
	stop = p.runThis(small())
	check.Eventually(p.t, "all is stored", func() bool { return p.count(topic) >= n })
	stop()
	var rows, offsets int
	if err := p.db.QueryRow(`
		SELECT count(*), count(DISTINCT m.dlq_offset) FILTER (WHERE octet_length(m.value) = 300000 AND m.key = convert_to(m.dlq_offset::text, 'UTF8'))
		FROM dlq.messages m JOIN dlq.topics t ON t.id = m.dlq_topic_id WHERE t.name = $1`, topic).Scan(&rows, &offsets); err != nil {
		t.Fatal(err)
	}
	check.True(t, rows == n && offsets == n, "rows, offsets as they were = %d, %d; want %d", rows, offsets, n)
}
