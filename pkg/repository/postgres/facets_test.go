package postgres

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
	"github.com/dlq-manager/dlq-manager/pkg/search"
)

// randomOrder returns a value for JSON in which each member may be missing or of a different kind.
func randomOrder(random *rand.Rand) any {
	pick := func(values ...any) any { return values[random.IntN(len(values))] }
	order := map[string]any{
		"customer": pick("c-1", "c-2", "c-3", "7", 7, 7.5, true, nil, []int{1}, map[string]any{}),
		"build":    pick("1.14.1", "1.14.2", "1.14.2", "1.14.2"),
		"total":    pick(12.1, 0.2, 1000, "3", nil),
		"items":    []any{map[string]any{"sku": random.IntN(4)}, map[string]any{"sku": random.IntN(4)}, map[string]any{}},
	}
	for name := range order {
		if random.IntN(5) == 0 {
			delete(order, name)
		}
	}
	return order
}

// facetsBySQL computes from the column payload, in plain SQL, what a facet must return: each value with its number of
// messages and its sum, and the number of messages without a value. %[1]s is the SQL of the set of values of m.payload,
// and %[2]s is the condition on messages.
const facetsBySQL = `
	WITH m AS (
		SELECT m.*, CASE WHEN jsonb_typeof(payload->'total') = 'number' OR payload->'total' = '"3"' THEN (payload->>'total')::numeric END AS total
		FROM dlq.dlq_messages m LEFT JOIN dlq.topics t ON t.id = m.dlq_topic_id WHERE %[2]s
	), v AS (
		SELECT DISTINCT m.id, m.total, v FROM m CROSS JOIN LATERAL %[1]s AS x (v) WHERE jsonb_typeof(v) NOT IN ('object', 'array')
	)
	SELECT format('%%s %%s %%s %%s', jsonb_typeof(v), v #>> '{}', count(*), trim_scale(sum(total))) FROM v GROUP BY v
	UNION ALL
	SELECT format('missing %%s of %%s, %%s in %%s', count(*) FILTER (WHERE NOT EXISTS (SELECT FROM v WHERE v.id = m.id)), count(*),
		coalesce(trim_scale(sum(total)), 0), count(total)) FROM m
	ORDER BY 1`

func facetRows(t *testing.T, db *sqlx.DB, found repository.Facets, facet repository.Facet) []string {
	t.Helper()
	rows := []string{fmt.Sprintf("missing %d of %d, %s in %d", facet.Missing, found.Counted, found.Sum.Sum, found.Sum.Messages)}
	for _, v := range facet.Values {
		sum := ""
		if v.Sum.Messages > 0 {
			sum = v.Sum.Sum
		}
		text := v.Text
		if v.Kind == repository.NullValue {
			text = "" // the SQL function format() writes NULL as an empty text
		}
		rows = append(rows, fmt.Sprintf("%s %s %d %s", v.Kind, text, v.Messages, sum))
	}
	return postgrestest.All[string](t, db, `SELECT x FROM unnest($1::text[]) x ORDER BY 1`, "{"+strings.Join(check.Each(rows, quoted), ",")+"}")
}

func quoted(text string) string { return `"` + strings.ReplaceAll(text, `"`, `\"`) + `"` }

// TestFacets_EqualPlainSQL compares the facets of random messages with SQL on the column payload, for several filters
// and for callers who see only some topics.
func TestFacets_EqualPlainSQL(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	store := New(db)
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	const messages = 2500
	storeOrders(t, store, messages, func(int) any { return randomOrder(random) })
	for more := true; more; {
		_, found, err := store.FillPayloads(t.Context())
		check.NoError(t, err)
		more = found
	}
	group := uuid.New()
	for _, statement := range []string{
		`UPDATE dlq.dlq_messages SET original_topic = (ARRAY['orders', 'orders.eu', 'payments', ''])[1 + dlq_offset % 4],
			status = (ARRAY['PENDING', 'DEAD', 'RESOLVED'])[1 + dlq_offset % 3], error_class = 'E' || dlq_offset % 5`,
		fmt.Sprintf(`UPDATE dlq.dlq_messages SET group_id = '%s' WHERE dlq_offset %% 2 = 0`, group),
	} {
		postgrestest.Exec(t, db, statement)
	}
	middle := postgrestest.Get[time.Time](t, db, `SELECT created_at FROM dlq.dlq_messages WHERE dlq_offset = 1200`)
	visible := func(patterns ...string) *entity.TopicPatterns {
		p := check.Must(entity.ParseTopicPatterns("topics", patterns...))(t)
		return &p
	}
	filters := []struct {
		filter entity.Filter
		sql    string
	}{
		{entity.Filter{}, `true`},
		{entity.Filter{Group: group}, fmt.Sprintf(`group_id = '%s'`, group)},
		{entity.Filter{Statuses: []entity.Status{entity.Dead, entity.Pending}, ErrorClass: "E2"}, `status IN ('DEAD', 'PENDING') AND error_class = 'E2'`},
		{entity.Filter{CreatedBefore: middle}, fmt.Sprintf(`m.created_at < '%s'`, middle.Format(time.RFC3339Nano))},
		{entity.Filter{Visible: visible("orders", "orders.*")}, `original_topic LIKE 'orders%' OR original_topic = '' AND t.name LIKE 'orders%'`},
		{entity.Filter{Group: group, Visible: visible("payments")}, fmt.Sprintf(`group_id = '%s' AND original_topic = 'payments'`, group)},
		{entity.Filter{Topic: "orders.dlq.v1", Visible: visible("orders.eu")}, `original_topic = 'orders.eu'`},
		{entity.Filter{Visible: visible("nothing")}, `false`},
	}
	keys := []struct {
		key repository.FacetKey
		sql string
	}{
		{repository.FacetKey{Path: "$.customer"}, `(SELECT m.payload->'customer')`},
		{repository.FacetKey{Path: "$.build"}, `(SELECT m.payload->'build')`},
		{repository.FacetKey{Path: "$.items[*].sku"}, `(SELECT e->'sku' FROM jsonb_array_elements(m.payload->'items') e)`},
		{repository.FacetKey{Field: repository.FacetTopic}, `(SELECT to_jsonb(nullif(m.original_topic, '')))`},
		{repository.FacetKey{Field: repository.FacetErrorGroup}, `(SELECT to_jsonb(m.group_id))`},
	}
	counter := search.NewFacetCounter(store, nil, nil)
	for i, f := range filters {
		q := repository.FacetQuery{Filter: f.filter, Sum: "$.total", Limit: 1000}
		for _, key := range keys {
			q.By = append(q.By, key.key)
		}
		found := check.Must(counter.Facets(t.Context(), q))(t)
		check.True(t, found.All, "filter %d: not all messages were counted", i)
		for n, key := range keys {
			want := postgrestest.All[string](t, db, fmt.Sprintf(facetsBySQL, key.sql, f.sql))
			got := facetRows(t, db, found, found.Facets[n])
			check.Equal(t, strings.Join(got, "\n"), strings.Join(want, "\n"), "seed %d, filter %d, by %s", seed, i, key.key)
			check.True(t, found.Facets[n].Exact && int(found.Facets[n].Distinct) == len(want)-1, "filter %d, by %s: %d distinct values, want %d", i, key.key, found.Facets[n].Distinct, len(want)-1)
		}
	}
	newest := counted(t, store, repository.FacetQuery{Filter: entity.Filter{Topic: "orders"}})
	check.True(t, newest.All && newest.Counted == messages/4, "%d messages of a topic, want %d", newest.Counted, messages/4)
}

func counted(t *testing.T, store *Store, q repository.FacetQuery) repository.Facets {
	t.Helper()
	return check.Must(search.NewFacetCounter(store, nil, nil).Facets(t.Context(), q))(t)
}

// TestFacets_ReadLongRecords: facets also count the records with a value that is too long for the rows of an export,
// and that must be read separately.
func TestFacets_ReadLongRecords(t *testing.T) {
	t.Parallel()
	store := New(postgrestest.Open(t))
	storeOrders(t, store, 3, func(n int) any {
		return map[string]any{"long": strings.Repeat("x", n*20<<10), "n": n}
	})
	for _, c := range []struct {
		by        string
		key       repository.FacetKey
		distinct  int64
		wantValue string
	}{
		{"a value of 20 and 40 KiB", repository.FacetKey{Path: "$.n"}, 3, "0"},
		{"a header", repository.FacetKey{Header: "kafka_dlt-header-3"}, 1, strings.Repeat("v", 48)},
		{"a key", repository.FacetKey{Field: repository.FacetRecordKey}, 3, "order-0"},
	} {
		got := counted(t, store, repository.FacetQuery{By: []repository.FacetKey{c.key}, Limit: 10}).Facets[0]
		check.True(t, got.Distinct == c.distinct && got.Missing == 0 && got.Values[0].Text == c.wantValue, "%s: %+.300v", c.by, got)
	}
}
