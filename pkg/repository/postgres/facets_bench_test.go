package postgres

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
	"github.com/dlq-manager/dlq-manager/pkg/search"
)

// BenchmarkFacets counts 100,000 messages of an error group, each with a record of 1 KB, in a table of 400,000.
func BenchmarkFacets(b *testing.B) {
	db := postgrestest.Open(b)
	store := New(db)
	random := rand.New(rand.NewPCG(1, 2))
	group := uuid.New()
	storeOrders(b, store, repository.MaxFacetMessages, func(n int) any {
		return map[string]any{
			"order": fmt.Sprintf("o-%08d", n), "customer": fmt.Sprintf("c-%d", random.IntN(5000)), "build": "1.14.2",
			"total": float64(random.IntN(100_000)) / 100, "items": strings.Repeat("espresso cup ", 72),
		}
	})
	pending(b, db, "payments", 3*repository.MaxFacetMessages)
	for _, statement := range []string{
		fmt.Sprintf(`INSERT INTO dlq.error_groups (id, class, title) VALUES ('%s', 'x', 'x') ON CONFLICT DO NOTHING`, group),
		fmt.Sprintf(`UPDATE dlq.dlq_messages SET group_id = '%s' WHERE original_topic = 'orders'`, group), `VACUUM ANALYZE`,
	} {
		check.Must(db.Exec(statement))(b)
	}
	counter := search.NewFacetCounter(store, nil, nil)
	for _, c := range []struct {
		name string
		q    repository.FacetQuery
	}{
		{"Field", repository.FacetQuery{By: []repository.FacetKey{{Field: repository.FacetTopic}}}},
		{"Header", repository.FacetQuery{By: []repository.FacetKey{{Header: "kafka_dlt-header-1"}}}},
		{"Path", repository.FacetQuery{By: []repository.FacetKey{{Path: "$.customer"}}}},
		{"ThreePathsAndSum", repository.FacetQuery{By: []repository.FacetKey{{Path: "$.order"}, {Path: "$.customer"}, {Path: "$.build"}}, Sum: "$.total"}},
	} {
		b.Run(c.name, func(b *testing.B) {
			c.q.Filter.Group, c.q.Limit = group, 10
			b.ReportAllocs()
			for b.Loop() {
				found, err := counter.Facets(b.Context(), c.q)
				check.Require(b, err == nil && found.All && found.Counted == repository.MaxFacetMessages, "Facets = %d, %v", found.Counted, err)
			}
		})
	}
}

// storeOrders stores messages of the topic orders, whose dead-letter records are one second apart. The value of message
// n is the JSON of value(n).
func storeOrders(t testing.TB, store *Store, messages int, value func(n int) any) {
	t.Helper()
	refs := check.Must(store.OpenTopics(t.Context(), []repository.Topic{{Name: "orders.dlq.v1", Incarnation: "x"}}))(t)
	part := repository.Partition{Incarnation: refs[0].Incarnation}
	check.Must(store.OpenPosition(t.Context(), []repository.Position{{Partition: part}}))(t)
	var headers []entity.Header
	for i := range 8 {
		headers = append(headers, entity.Header{Key: fmt.Sprintf("kafka_dlt-header-%d", i), Value: []byte(strings.Repeat("v", 48))})
	}
	const rows = 1000
	for next := 0; next < messages; next += rows {
		last := min(next+rows, messages)
		batch := repository.Batch{Ranges: []repository.Range{{Partition: part, From: int64(next), To: int64(last)}}}
		for n := next; n < last; n++ {
			m := entity.NewMessage("orders", "stock service is down", time.Now().Add(time.Duration(n-messages)*time.Second))
			text := check.Must(json.Marshal(value(n)))(t)
			m.Record = entity.Record{Key: fmt.Append(nil, "order-", n%100), Value: text, Headers: headers, Size: int64(len(text))}
			m.Source = entity.Source{TopicID: refs[0].TopicID, Incarnation: part.Incarnation, Offset: int64(n), Timestamp: m.CreatedAt}
			m.Origin.Confidence, m.Failure.Dialect = entity.FromHeader, "spring-dlt"
			batch.Messages = append(batch.Messages, m)
		}
		moved, err := store.Store(t.Context(), batch)
		check.Require(t, err == nil && len(moved.Ranges) == 1, "Store = %v, %v", moved, err)
	}
}
