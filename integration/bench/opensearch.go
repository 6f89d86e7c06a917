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
	customers     = 100_000   // number of different customers that fillRows makes
	facetNewest   = 100_000   // number of newest messages over which PostgreSQL computes a facet
	facetMessages = 1_000_000 // number of newest messages over which OpenSearch computes a facet
	facetEvery    = 10        // a facet is requested once for this number of requests of a search

	maxPostgresFacet = 2000 // the 99th percentile of a facet in PostgreSQL must be below it, in ms
	maxFacet         = 1000 // the 99th percentile of a facet in OpenSearch must be below it, in ms
	maxDistinct      = 2.0  // the error of a facet's number of customers must be below it, in %

	besidePairs = 10
	minBeside   = 97.0 // with OpenSearch, ingest must have this share of its rate with PostgreSQL at least, in %
)

// engines measures the same searches and facets with PostgreSQL and with OpenSearch, on a table of messages with
// values.
func engines(ctx context.Context, s *side) (figures []figure) {
	n := s.opts.count(s.opts.documents)
	prefix, flooded := s.createFlood(ctx)
	defer s.kafka.removeFlood(ctx, flooded)
	d := s.database(ctx, "engines", prefix)
	defer s.drop(ctx, d)
	d.fill(ctx, n, s.opts.days, 0, prefix+"quiet", "'PENDING'", 6)
	d.fillValues(ctx, n)
	counted, million := d.newest(ctx, min(facetNewest, n)), d.newest(ctx, min(facetMessages, n))
	var before []figure // with PostgreSQL
	s.with(ctx, "api", d, func(api program) {
		work := api.timed(func() int {
			api.awaitIndexed(ctx)
			return n
		})
		d.settle(ctx)
		before = s.askEngine(ctx, api, n, counted, "PostgreSQL", maxPostgresFacet)
		figures = append(work.indexing("PostgreSQL", "postgres", "api"), before...)
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
			figures = append(figures, work.indexing("OpenSearch", "postgres", "api")...)
			figures = append(figures, work.figure("OpenSearch: processor time of OpenSearch and Kafka", "µs a row", work.micros("java")))
			for i, f := range s.askEngine(ctx, api, n, million, "OpenSearch", maxFacet) {
				figures = append(figures, f.comparedWith("PostgreSQL", before[i].Value))
			}
			flood := s.kafka.startFlood(ctx, flooded)
			defer flood.stop()
			stored := ingester.stored(ctx)
			loaded := api.timed(func() int {
				figures = append(figures, s.askEngine(ctx, api, n, million, "OpenSearch with 2,000 records/s", maxFacet)...)
				return ingester.stored(ctx) - stored
			})
			check(flood.stop())
			figures = append(figures, loaded.rate("stored meanwhile"), loaded.resident("memory of the API with OpenSearch"))
		}, env...)
	})
	return figures
}

// beside measures ingest while an API fills the search index, in PostgreSQL and in OpenSearch, by turns. Each turn has a
// new database.
func beside(ctx context.Context, s *side) []figure {
	s.fillTopics(ctx)
	s.say("starting OpenSearch")
	node := must(stack.StartOpenSearch(ctx))
	defer func() { check(node.Stop()) }()
	var rates [2][]float64
	for i := range 2 * besidePairs {
		engine := (i + 1) / 2 % 2 // the engines take the first turn of a pair alternately
		rates[engine] = append(rates[engine], s.ingestBeside(ctx, [][]string{
			{noRedrives},
			{noRedrives, "DLQ_SEARCH_ENGINE=opensearch", "DLQ_SEARCH_OPENSEARCH_URL=" + node.Address},
		}[engine]))
		s.say("  turn %d: %.0f records/s", i+1, rates[engine][len(rates[engine])-1])
	}
	shares := make([]float64, besidePairs)
	for i := range shares {
		shares[i] = 100 * rates[1][i] / rates[0][i]
	}
	low, high, coverage := interval(shares)
	s.say("  the share is %.1f to %.1f %%, with %.0f %% confidence", low, high, 100*coverage)
	rate := section{}.figure("ingest while OpenSearch is filled", "/s", median(rates[1])).comparedWith("PostgreSQL", median(rates[0]))
	return []figure{rate, section{}.figure("ingest while OpenSearch is filled, share of the rate with PostgreSQL, median of pairs", "%", median(shares)).limit(minBeside)}
}

// ingestBeside returns the rate at which an ingester fills a new database while an API with these settings indexes it.
func (s *side) ingestBeside(ctx context.Context, env []string) float64 {
	d := s.database(ctx, "beside", s.id)
	defer s.drop(ctx, d)
	var work section
	s.with(ctx, "api", d, func(api program) {
		api.awaitIndexed(ctx)
		if len(env) > 1 {
			api.awaitEngine(ctx)
		}
		d.settle(ctx)
		s.with(ctx, "ingester", d, func(ingester program) {
			work = ingester.timed(func() int {
				await(ctx, time.Hour, 100*time.Millisecond, "ingest", func() bool { return ingester.stored(ctx) >= s.records })
				return s.records
			})
		})
	}, env...)
	return work.perSecond()
}

// indexing returns the rate of indexing and the processor time of these programs.
func (s section) indexing(engine string, programs ...string) []figure {
	return append([]figure{s.rate(engine + ": messages indexed")}, s.processors(engine+": indexing", programs...)...)
}

// fillValues gives each message of the table a record whose value is the message's payload.
func (d *database) fillValues(ctx context.Context, rows int) {
	var steps []string
	for from := 1; from <= rows; from += fillStep {
		steps = append(steps, fmt.Sprintf(`INSERT INTO dlq.records (message_id, value) SELECT id, convert_to(payload::text, 'UTF8')
			FROM dlq.dlq_messages WHERE id BETWEEN '018f%08x70008000000000000000' AND '018f%08x70008000ffffffffffff'`,
			from, min(from+fillStep-1, rows)))
	}
	d.parallel(ctx, 2, steps)
	d.settle(ctx)
}

// period is the time of creation of the newest messages of a table.
type period struct {
	messages     int
	from, before time.Time
}

// filter returns the conditions of a request that selects the messages of the period. Different numbers n give different
// conditions for the same messages.
func (p period) filter(n int) string {
	before := p.before.Add(time.Duration(n) * time.Microsecond)
	return "&created_after=" + url.QueryEscape(p.from.Format(time.RFC3339Nano)) + "&created_before=" + url.QueryEscape(before.Format(time.RFC3339Nano))
}

// newest returns the period of the newest messages. Messages that arrive more than a second later are not in it.
func (d *database) newest(ctx context.Context, messages int) period {
	p := period{messages: messages}
	check(d.QueryRowContext(ctx, `SELECT min(created_at), max(created_at) + interval '1 microsecond'
		FROM (SELECT created_at FROM dlq.dlq_messages ORDER BY created_at DESC LIMIT $1) newest`, messages).Scan(&p.from, &p.before))
	return p
}

// askEngine measures searches of a table of n messages, and a facet over a period, with a limit of its p99 in ms.
func (s *side) askEngine(ctx context.Context, p program, n int, over period, engine string, limit float64) []figure {
	path := fmt.Sprintf("/api/v1/messages?limit=%d&payload=%s", pageSize, url.QueryEscape(fmt.Sprintf("$.customer.id == %d", n/2%customers)))
	return slices.Concat(
		s.askSearch(ctx, p, engine+": a rare word", 1, fmt.Sprintf("charge-%07d", n/2)),
		s.askSearch(ctx, p, engine+": a common word", pageSize, "charged"),
		s.ask(ctx, p, engine+": a value of a path", 1, path),
		s.askFacet(ctx, p, over, engine, limit))
}

// askFacet measures a facet of the customers, after two answers that do not count, and the error of its number of
// customers. Each request has another filter, because OpenSearch keeps the answers to equal requests.
func (s *side) askFacet(ctx context.Context, p program, over period, engine string, limit float64) []figure {
	const path = "/api/v1/messages/facets?by=$.customer.id"
	var answer struct {
		Counted int
		Facets  []struct{ Distinct struct{ Values int } }
	}
	check(json.Unmarshal(must(p.get(ctx, path+over.filter(0))), &answer))
	expect("messages that the facet of "+engine+" counted", int64(answer.Counted), int64(over.messages))
	name := fmt.Sprintf("%s: a facet over %s messages", engine, thousands(over.messages))
	requests := max(s.opts.requests/facetEvery, 1)
	paths := make([]string, requests+1)
	for i := range paths {
		paths[i] = path + over.filter(s.next())
	}
	figures := p.ask(ctx, 1, requests, name, 0, paths...)
	figures[1] = figures[1].limit(limit)
	wrong := 100 * math.Abs(float64(answer.Facets[0].Distinct.Values)/float64(min(customers, over.messages))-1)
	return append(figures, section{}.figure(name+", error of the number of customers", "% of it", wrong).limit(maxDistinct))
}

// awaitEngine waits until OpenSearch answers searches.
func (p program) awaitEngine(ctx context.Context) {
	await(ctx, 4*time.Hour, time.Second, "OpenSearch with all messages", func() bool {
		return p.metric(ctx, "dlq_search_engine_serves") == 1
	})
}
