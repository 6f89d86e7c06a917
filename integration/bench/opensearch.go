package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"slices"
	"time"

	"github.com/dlq-manager/dlq-manager/integration/stack"
)

const (
	customers     = 100_000   // different customers in the table of search
	facetNewest   = 100_000   // messages that PostgreSQL counts at most
	facetMessages = 1_000_000 // messages of a facet of OpenSearch
	facetEvery    = 10        // one request of a facet for this many searches

	maxPostgresFacet = 2000 // limit of the p99 of a facet of PostgreSQL, in ms
	maxFacet         = 1000 // limit of the p99 of a facet of OpenSearch, in ms
	maxDistinct      = 2.0  // limit of the error of a number of distinct values, in %
)

// engines measures the same searches and facets with PostgreSQL and with OpenSearch, on the table of search.
func engines(ctx context.Context, s *side) (figures []figure) {
	d := s.documents
	n := int(d.number(ctx, countRows))
	var before []figure // with PostgreSQL
	s.with(ctx, "api", d, func(api program) {
		d.settle(ctx)
		before = s.askEngine(ctx, api, n, facetNewest, "PostgreSQL", maxPostgresFacet)
		figures = slices.Clone(before)
	}, noRedrives)
	s.say("starting OpenSearch")
	node := must(stack.StartOpenSearch(ctx))
	defer func() { check(node.Stop()) }()
	env := []string{noRedrives, "DLQ_SEARCH_ENGINE=opensearch", "DLQ_SEARCH_OPENSEARCH_URL=" + node.Address}
	s.with(ctx, "ingester", d, func(ingester program) {
		s.with(ctx, "api", d, func(api program) {
			work := api.timed(func() int {
				api.awaitEngine(ctx)
				return n
			})
			d.settle(ctx)
			figures = append(figures, work.rate("messages indexed in OpenSearch"))
			figures = append(figures, work.processors("indexing in OpenSearch", "postgres", "api")...)
			figures = append(figures, work.figure("indexing in OpenSearch, processor time of OpenSearch and Kafka", "µs a row", work.micros("java")))
			for i, f := range s.askEngine(ctx, api, n, facetMessages, "OpenSearch", maxFacet) {
				figures = append(figures, f.comparedWith("PostgreSQL", before[i].Value))
			}
			flood := s.kafka.startFlood(ctx, s.flooded)
			defer flood.stop()
			stored := ingester.stored(ctx)
			loaded := api.timed(func() int {
				figures = append(figures, s.askEngine(ctx, api, n, facetMessages, "OpenSearch with 2,000 records/s", maxFacet)...)
				return ingester.stored(ctx) - stored
			})
			check(flood.stop())
			figures = append(figures, loaded.rate("stored meanwhile"), loaded.resident("memory of the API with OpenSearch"))
		}, env...)
	})
	return figures
}

// askEngine measures searches of a table of n messages, and a facet over the newest of them, with a limit of its p99 in ms.
func (s *side) askEngine(ctx context.Context, p program, n, newest int, engine string, limit float64) []figure {
	path := fmt.Sprintf("/api/v1/messages?limit=%d&payload=%s", pageSize, url.QueryEscape(fmt.Sprintf("$.customer.id == %d", n%customers/2)))
	return slices.Concat(
		s.askSearch(ctx, p, engine+": a rare word", 1, fmt.Sprintf("charge-%07d", n/2)),
		s.askSearch(ctx, p, engine+": a common word", pageSize, "charged"),
		s.ask(ctx, p, engine+": a value of a path", 1, path),
		s.askFacet(ctx, p, min(newest, n), engine, limit))
}

// askFacet measures a facet over the customers of the newest messages, after one answer that does not count.
func (s *side) askFacet(ctx context.Context, p program, newest int, engine string, limit float64) []figure {
	since := s.documents.text(ctx, `SELECT to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
		FROM dlq.dlq_messages ORDER BY created_at DESC OFFSET $1 LIMIT 1`, newest-1)
	path := "/api/v1/messages/facets?by=$.customer.id&created_after=" + url.QueryEscape(since)
	var answer struct {
		Counted int
		Facets  []struct{ Distinct int }
	}
	check(json.Unmarshal(must(p.get(ctx, path)), &answer))
	name := fmt.Sprintf("%s: a facet over %s messages", engine, thousands(newest))
	figures := p.ask(ctx, 1, max(s.opts.requests/facetEvery, 1), name, 0, path)
	figures[1] = figures[1].limit(limit)
	wrong := 100 * math.Abs(float64(answer.Facets[0].Distinct)/float64(min(customers, answer.Counted))-1)
	return append(figures, section{}.figure(name+", error of the number of customers", "% of it", wrong).limit(maxDistinct))
}

// awaitEngine waits until OpenSearch answers searches.
func (p program) awaitEngine(ctx context.Context) {
	await(ctx, 4*time.Hour, time.Second, "OpenSearch with all messages", func() bool {
		return p.metric(ctx, "dlq_search_engine_serves") == 1
	})
}
