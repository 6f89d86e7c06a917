package postgres

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// BenchmarkStoreRepeats stores full batches of 1 KB records of Spring that name their position, while
// dlq.recent_records contains 500,000 rows. The records of every second batch have a digest; the difference of the two
// times is the cost of recognising repeats. The times are the fastest of the rounds and their median.
func BenchmarkStoreRepeats(b *testing.B) {
	const rows = 1000
	db := postgrestest.Open(b)
	f := newFeed(b, New(db))
	db.MustExec(`INSERT INTO dlq.recent_records SELECT gen_random_uuid(), gen_random_uuid(), now() FROM generate_series(1, 500000) n`)
	db.MustExec(`VACUUM ANALYZE dlq.recent_records`)
	text := strings.Repeat(`{"product":"P-100","title":"Espresso cup, set of 4","quantity":2,"unit_price":24.90},`, 12)
	var headers []entity.Header
	for i := range 8 {
		headers = append(headers, entity.Header{Key: fmt.Sprintf("kafka_dlt-header-%d", i), Value: []byte(strings.Repeat("v", 48))})
	}
	took := map[bool][]float64{}
	for n := 0; b.Loop(); {
		for _, recognised := range []bool{n/rows%4 == 0, n/rows%4 != 0} {
			all := records(n, rows)
			for k := range all {
				all[k].Value, all[k].Headers = fmt.Appendf(nil, `{"id":%d,"items":[%s{}]}`, n+k, text), headers
			}
			batch := f.batch(24*time.Hour, all...)
			for k := range batch.Messages {
				m := &batch.Messages[k]
				partition, offset := int32(0), int64(n+k)
				m.Origin.Partition, m.Origin.Offset, m.Failure.ConsumerGroup = &partition, &offset, "billing"
			}
			n += rows
			start := time.Now()
			for k := range batch.Messages {
				if recognised {
					batch.Messages[k].SetDigest(nil)
				}
			}
			stored := check.Must(f.store.Store(b.Context(), batch))(b)
			took[recognised] = append(took[recognised], time.Since(start).Seconds()*1000)
			check.Require(b, len(stored.Ranges) == 1, "Store = %+v", stored)
		}
	}
	for recognised, name := range map[bool]string{false: "off", true: "on"} {
		slices.Sort(took[recognised])
		b.ReportMetric(took[recognised][0], name+"-ms")
		b.ReportMetric(took[recognised][len(took[recognised])/2], name+"-median-ms")
	}
}
