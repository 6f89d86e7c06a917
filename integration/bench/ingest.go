package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

const (
	ingestTopics  = 10
	retriedTopics = 2 // the first topics, one for each retry-all of the part named retry
)

func (b *bench) topicName(n int) string { return fmt.Sprintf("%s-%d", b.id, n) }

// quota returns the number of dead letters for each topic. Each of the retriedTopics gets as many as one retry-all
// republishes; the other topics share the rest equally.
func (o options) quota() []int {
	out := make([]int, ingestTopics)
	for i := range out {
		if out[i] = o.count(recordsToRetry); i >= retriedTopics {
			out[i] = max((o.count(recordsToIngest)-retriedTopics*out[0])/(ingestTopics-retriedTopics), 1)
		}
	}
	return out
}

// ingest measures filling a new table from Kafka. Other parts use this table later.
func ingest(ctx context.Context, s *side) []figure {
	s.fillTopics(ctx)
	d := s.database(ctx, "ingest", s.id)
	s.ingested = d
	d.settle(ctx)
	var work section
	s.with(ctx, "ingester", d, func(ingester program) {
		work = ingester.timed(func() int {
			await(ctx, time.Hour, 100*time.Millisecond, "ingest", func() bool { return ingester.stored(ctx) >= s.records })
			return s.records
		})
	})
	d.expectIngested(ctx, s.records, s.bytes)
	figures := append([]figure{work.rate("ingest")}, work.processors("ingest", "postgres", "ingester", "java")...)
	figures = append(figures, work.resident("ingest, memory of the ingester"))
	if s.compares() {
		copied := d.copyFastest(ctx, s.opts.count(recordsToCopy))
		figures[0] = figures[0].comparedWith("COPY", copied.perSecond())
		figures[1] = figures[1].comparedWith("COPY", copied.micros("postgres"))
	}
	return figures
}

// fillTopics produces the dead letters that all turns of the part ingest read from the start. It does so only once.
func (b *bench) fillTopics(ctx context.Context) {
	if b.records > 0 {
		return
	}
	for i, n := range b.opts.quota() {
		name := b.topicName(i)
		b.say("producing %d dead letters of %s", n, name)
		b.kafka.create(ctx, deadLetterTopic(name), originalTopic(name))
		b.records += n
		b.bytes += b.kafka.produce(ctx, name, n)
		expect("records of "+deadLetterTopic(name), b.kafka.held(ctx, deadLetterTopic(name)), int64(n))
	}
}

// messages returns the name of the table or view that contains the keys, values and headers of messages. In later
// commits it is the view dlq.messages; in earlier commits the table dlq.dlq_messages has these columns.
func (d *database) messages(ctx context.Context) string {
	if d.has(ctx, "dlq.messages") {
		return "dlq.messages"
	}
	return "dlq.dlq_messages"
}

// expectIngested checks that the table contains n PENDING messages, each once, and that the total size of their values
// is right.
func (d *database) expectIngested(ctx context.Context, n int, bytes int64) {
	expect("stored rows", d.number(ctx, countRows), int64(n))
	expect("different offsets", d.number(ctx, `SELECT count(*) FROM (
		SELECT DISTINCT dlq_incarnation_id, dlq_partition, dlq_offset FROM dlq.dlq_messages) d`), int64(n))
	expect("bytes of values", d.number(ctx, `SELECT sum(octet_length(value)) FROM `+d.messages(ctx)), bytes)
	expect("rows that were not read whole", d.number(ctx, `SELECT count(*) FROM dlq.dlq_messages
		WHERE status <> 'PENDING' OR dialect IS DISTINCT FROM 'spring-dlt' OR original_offset IS NULL`), 0)
}

// copyBatch is the number of rows per transaction, the same as the ingester's.
const copyBatch = 1000

// copyFastest inserts n rows with COPY over 2 and over 4 connections, and removes them again. It returns the faster of
// the two. The server reads the rows from its own files, so that no client takes processor time.
func (d *database) copyFastest(ctx context.Context, n int) (best section) {
	before := d.number(ctx, countRows)
	for _, connections := range []int{2, 4} {
		statements := d.copyOut(ctx, n)
		d.settle(ctx)
		s := timed(func() int {
			d.parallel(ctx, connections, statements)
			return n
		})
		if s.perSecond() > best.perSecond() {
			best = s
		}
		expect("rows after COPY", d.number(ctx, countRows), before+int64(n))
		check(d.run(ctx, `DELETE FROM dlq.dlq_messages WHERE dlq_offset >= 1::bigint << 40`))
	}
	return best
}

// copyOut exports rows that the ingester stored to files, with new offsets and new time-ordered ids. It returns one
// statement for each file, which reads the file.
func (d *database) copyOut(ctx context.Context, n int) (statements []string) {
	columns := strings.Join(d.list(ctx, `SELECT quote_ident(column_name) FROM information_schema.columns
		WHERE table_schema = 'dlq' AND table_name = 'dlq_messages' AND is_generated = 'NEVER' ORDER BY ordinal_position`), ", ")
	values := strings.NewReplacer("dlq_offset", "dlq_offset + (1::bigint << 40)", "created_at", "now()", "updated_at", "now()").Replace(columns)
	values = strings.Replace(values, "id,",
		`('01ff' || lpad(to_hex(row_number() OVER ()), 8, '0') || '70008000' || substr(md5(id::text), 1, 12))::uuid,`, 1)
	path := filepath.Join(d.text(ctx, `SELECT current_setting('data_directory')`), "copy")
	check(d.run(ctx, fmt.Sprintf(`COPY (SELECT %s FROM %s LIMIT %d) TO PROGRAM 'split -l %d -a 5 -d - %s'`,
		values, d.messages(ctx), n, copyBatch, path)))
	for i := range (n + copyBatch - 1) / copyBatch {
		statements = append(statements, fmt.Sprintf(`COPY dlq.dlq_messages (%s) FROM '%s%05d'`, columns, path, i))
	}
	return statements
}

const (
	steadyTime    = 20 * time.Second
	payloadTarget = 5 * time.Second
)

// payloads measures how fast the API fills the column payload in the background, after the ingester has stored the
// messages.
func payloads(ctx context.Context, s *side) (figures []figure) {
	const name = "payloads filled after ingest"
	if !s.ingested.has(ctx, "dlq.payload_progress") {
		return []figure{skipped(name, "no dlq.payload_progress: the payload is stored with the message")}
	}
	s.with(ctx, "api", s.ingested, func(program) {
		work := timed(func() int {
			await(ctx, time.Hour, 200*time.Millisecond, "payloads", func() bool {
				return s.ingested.number(ctx, `SELECT messages_pending FROM dlq.payload_progress`) == 0
			})
			return s.records
		})
		figures = []figure{work.figure(name+", all", "s", work.took.Seconds()), work.rate(name)}
	}, noRedrives)
	return figures
}

// steady measures the share of messages whose column payload is filled within payloadTarget while records arrive at a
// steady rate. Every second it counts, among the messages that were stored in the second that ended payloadTarget ago,
// those that have a payload.
func steady(ctx context.Context, s *side) []figure {
	f := skipped("payloads filled within 5 s, with 2,000 records/s", "no message was stored in time")
	prefix, names := s.createFlood(ctx)
	d := s.database(ctx, "steady", prefix)
	defer s.drop(ctx, d)
	defer s.kafka.removeFlood(ctx, names)
	s.with(ctx, "ingester", d, func(program) {
		s.with(ctx, "api", d, func(program) {
			flood := s.kafka.startFlood(ctx, names)
			defer flood.stop()
			var stored, filled int64
			end := time.Now().Add(steadyTime)
			work := timed(func() int {
				await(ctx, 2*steadyTime, time.Second, "a steady flood", func() bool {
					var all, there int64
					check(d.QueryRowContext(ctx, `SELECT count(*), count(payload) FROM dlq.dlq_messages
						WHERE created_at >= now() - make_interval(secs => $1 + 1) AND created_at < now() - make_interval(secs => $1)`,
						payloadTarget.Seconds()).Scan(&all, &there))
					stored, filled = stored+all, filled+there
					return time.Now().After(end)
				})
				return int(stored)
			})
			if stored > 0 {
				f = work.figure(f.Name, "%", 100*float64(filled)/float64(stored))
			}
			check(flood.stop())
		}, noRedrives)
	})
	return []figure{f}
}
