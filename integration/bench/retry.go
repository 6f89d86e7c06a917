package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/dlq-manager/dlq-manager/integration/stack"
)

const (
	oneByOneShare = 50 // for every 50 messages of retry-all, one message is retried by a request of its own
	bareBatch     = 500
	bareWorkers   = 4   // connections of bareRetry: as many as an API has redrive workers by default
	producerTimes = 3   // how many times more records the tool sends than retry-all, so that its warm-up hardly counts
	maxClaim      = 100 // the 99th percentile of claims must be below it, in ms
)

// retry measures how fast the API republishes messages that the part ingest has stored: by one retry-all, and one by
// one.
func retry(ctx context.Context, s *side) []figure {
	n := s.opts.count(recordsToRetry)
	s.ingested.settle(ctx)
	all := s.retryAll(ctx, s.topicName(0), n)
	s.ingested.settle(ctx)
	single, times := s.oneByOne(ctx, max(n/oneByOneShare, 1))
	rate := all.rate("retry-all")
	figures := append([]figure{rate.comparedWith("one by one", single.perSecond())}, all.processors("retry-all", "postgres", "api", "java")...)
	figures = append(figures, all.resident("retry-all, memory of the API"), single.rate("retries one by one"),
		single.figure("retries one by one, p99", "ms", milliseconds(quantile(times, 0.99))))
	if s.compares() {
		tool := s.producerPerformance(ctx, producerTimes*n)
		bare := s.bareRetry(ctx, min(n, s.opts.quota()[retriedTopics+1]))
		figures = append(figures, rate.comparedWith("Kafka's producer performance tool", tool), rate.comparedWith("bare SQL of claim and result", bare.perSecond()))
	}
	s.ingested.settle(ctx)
	return append(figures, s.claims(ctx, n)...)
}

// retryAll measures a request that retries all n messages of a topic, and checks the results in Kafka and in the
// table.
func (s *side) retryAll(ctx context.Context, name string, n int) (work section) {
	before := s.kafka.held(ctx, originalTopic(name))
	var got struct{ Retried int }
	s.with(ctx, "api", s.ingested, func(api program) {
		work = api.timed(func() int {
			api.call(ctx, http.MethodPost, "/api/v1/dlq/"+deadLetterTopic(name)+"/retry-all", &got)
			return n
		})
	})
	expect("messages that retry-all retried", int64(got.Retried), int64(n))
	expect("records in the original topic", s.kafka.held(ctx, originalTopic(name))-before, int64(n))
	expect("resolved messages", s.ingested.number(ctx, `SELECT count(*) FROM dlq.dlq_messages
		WHERE status = 'RESOLVED' AND original_topic = $1`, originalTopic(name)), int64(n))
	return work
}

// oneByOne retries n messages with one request each.
func (s *side) oneByOne(ctx context.Context, n int) (work section, times []time.Duration) {
	ids := s.ingested.pending(ctx, s.topicName(retriedTopics), n)
	s.with(ctx, "api", s.ingested, func(api program) {
		work = timed(func() int {
			for _, id := range ids {
				start := time.Now()
				api.call(ctx, http.MethodPost, messagePath+id+"/retry", &struct{}{})
				times = append(times, time.Since(start))
			}
			return n
		})
	}, noRedrives)
	return work, times
}

// pending returns the ids of the oldest PENDING messages of a topic.
func (d *database) pending(ctx context.Context, name string, n int) []string {
	ids := d.list(ctx, `SELECT id FROM dlq.dlq_messages WHERE original_topic = $1 AND status = 'PENDING'
		ORDER BY created_at, id LIMIT $2`, originalTopic(name), n)
	expect("pending messages", int64(len(ids)), int64(n))
	return ids
}

// bareRetry measures the SQL of a retry without the API and Kafka: two statements per batch that change the state of
// the messages.
func (s *side) bareRetry(ctx context.Context, n int) section {
	ids := s.ingested.pending(ctx, s.topicName(retriedTopics+1), n)
	var steps []string
	for from := 0; from < n; from += bareBatch {
		list := strings.Join(ids[from:min(from+bareBatch, n)], "','")
		steps = append(steps, fmt.Sprintf(`DO $$ BEGIN
			UPDATE dlq.dlq_messages SET status = 'RETRYING', retry_count = retry_count + 1, last_retry_at = now(), updated_at = now()
				WHERE id IN ('%[1]s') AND status = 'PENDING';
			COMMIT;
			UPDATE dlq.dlq_messages SET status = 'RESOLVED', updated_at = now() WHERE id IN ('%[1]s') AND status = 'RETRYING';
		END $$`, list))
	}
	s.ingested.settle(ctx)
	const resolved = `SELECT count(*) FROM dlq.dlq_messages WHERE status = 'RESOLVED'`
	before := s.ingested.number(ctx, resolved)
	work := timed(func() int {
		s.ingested.parallel(ctx, bareWorkers, steps)
		return n
	})
	expect("messages resolved by bare SQL", s.ingested.number(ctx, resolved)-before, int64(n))
	return work
}

// producerPerformance measures Kafka's tool kafka-producer-perf-test. The tool sends only values, so each value is as
// large as the key, value and headers of a retried record together.
func (b *bench) producerPerformance(ctx context.Context, n int) float64 {
	topic := fmt.Sprintf("%s.performance.%d", b.id, b.next())
	b.kafka.create(ctx, topic)
	one := b.kafka.letter(b.topicName(0), 0)
	bytes := len(one.Key) + len(one.Value)
	for _, h := range one.Headers {
		bytes += len(h.Key) + len(h.Value)
	}
	var lines strings.Builder
	for range 1000 {
		lines.WriteString(b.kafka.text(bytes) + "\n")
	}
	payload := filepath.Join(b.folder, "payload")
	check(os.WriteFile(payload, []byte(lines.String()), 0o600))
	tool := must(stack.KafkaTool(ctx, producerHeap, "org.apache.kafka.tools.ProducerPerformance",
		"--bootstrap-server", b.brokers[0], "--topic", topic, "--num-records", strconv.Itoa(n),
		"--throughput", "-1", "--payload-file", payload, "--command-property", "acks=all"))
	text, err := tool.CombinedOutput()
	if err != nil {
		check(fmt.Errorf("producer performance: %w\n%s", err, text))
	}
	sent, perSecond := readProduced(string(text))
	expect("records that the tool sent", int64(sent), int64(n))
	expect("its records in Kafka", b.kafka.held(ctx, topic), int64(n))
	return perSecond
}

var producedLine = regexp.MustCompile(`(\d+) records sent, ([\d.]+) records/sec`)

// readProduced parses the summary line at the end of the tool's output.
func readProduced(text string) (n int, perSecond float64) {
	all := producedLine.FindAllStringSubmatch(text, -1)
	if len(all) == 0 {
		check(fmt.Errorf("the tool does not print how fast it was: %s", text))
	}
	last := all[len(all)-1]
	return must(strconv.Atoi(last[1])), must(strconv.ParseFloat(last[2], 64))
}

// claims measures how long PostgreSQL takes for the claims of another retry-all. During this time the server logs every
// statement of the database with its duration.
func (s *side) claims(ctx context.Context, n int) []figure {
	const name = "claim of a redrive, p99"
	d := s.ingested
	file := d.text(ctx, `SELECT coalesce(pg_current_logfile('jsonlog'), '')`)
	if file == "" {
		return []figure{skipped(name, "the server does not log in JSON")}
	}
	begin := d.number(ctx, `SELECT size FROM pg_stat_file($1)`, file)
	alter := "ALTER DATABASE " + d.name
	s.administer(ctx, alter+" SET log_min_duration_statement = 0", alter+" SET log_parameter_max_length = 0")
	work := s.retryAll(ctx, s.topicName(1), n)
	s.administer(ctx, alter+" RESET ALL")
	log := d.text(ctx, `SELECT pg_read_file($1, $2, 1000000000)`, file, begin)
	times := claimTimes(strings.NewReader(log), d.name)
	if len(times) == 0 {
		return []figure{skipped(name, "no statement sets status = 'RETRYING'")}
	}
	return []figure{
		work.figure(name, "ms", milliseconds(quantile(times, 0.99))).limit(maxClaim),
		work.figure("claim of a redrive, p50", "ms", milliseconds(quantile(times, 0.5))),
	}
}

var (
	statementLine  = regexp.MustCompile(`(?s)^duration: ([\d.]+) ms  (?:(parse|bind|execute) \S+|statement): (.*)`)
	claimStatement = regexp.MustCompile(`(?is)\bSET\s+status\s*=\s*'RETRYING'`)
)

// claimTimes reads the durations of claims from a JSON log. A statement with parameters has three
// log entries: parse, bind and execute, in this order.
func claimTimes(log io.Reader, database string) (times []time.Duration) {
	open := map[int]time.Duration{} // sum of the durations of parse and bind, by process id
	for lines := json.NewDecoder(log); lines.More(); {
		var line struct {
			PID      int    `json:"pid"`
			Database string `json:"dbname"`
			Message  string `json:"message"`
		}
		check(lines.Decode(&line))
		found := statementLine.FindStringSubmatch(line.Message)
		if line.Database != database || found == nil || !claimStatement.MatchString(found[3]) {
			continue
		}
		open[line.PID] += must(time.ParseDuration(found[1] + "ms"))
		if found[2] != "parse" && found[2] != "bind" {
			times = append(times, open[line.PID])
			delete(open, line.PID)
		}
	}
	return times
}
