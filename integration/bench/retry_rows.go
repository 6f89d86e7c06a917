package main

import (
	"fmt"
	"runtime"
	"strings"
	"time"
)

// The demands on retry-all.
const (
	wantRetryProduced      = 0.3 // of the producer performance tool
	wantRetryProducedFloor = 0.15
	wantRetryShare         = 0.7 // of the bare SQL
	wantRetryTimes         = 50  // of the way one by one
	wantRetryTimesFloor    = 25
)

func (p *retryPart) lines() []line {
	retry := p.perSecond()
	title := fmt.Sprintf("retry-all of %s × 1 KB over HTTP", thousands(p.n))
	produced, share := quotient(retry, p.produced.perSecond()), quotient(retry, p.bare.perSecond())
	hasty, patient := quotient(retry, p.hasty.perSecond()), quotient(retry, p.patient.perSecond())
	return []line{
		{
			work: title, figure: each(retry),
			beside: "Kafka's producer performance tool: " + each(p.produced.perSecond()), ratio: fmt.Sprintf("%.2f", produced),
			wanted:  fmt.Sprintf("ratio ≥ %.1f, at least %.2f", wantRetryProduced, wantRetryProducedFloor),
			reached: produced >= wantRetryProduced, floor: produced >= wantRetryProducedFloor,
			limits: p.cpu.limits(p.n, "record", redriveWorkers),
		},
		{
			work: title, figure: each(retry),
			beside: "bare SQL of claim, attempt row and result: " + each(p.bare.perSecond()), ratio: fmt.Sprintf("%.2f", share),
			wanted: fmt.Sprintf("ratio ≥ %.1f", wantRetryShare), reached: share >= wantRetryShare,
			limits: p.besideBare(),
		},
		{
			work: title, figure: each(retry),
			beside: "one by one: " + each(p.hasty.perSecond()), ratio: fmt.Sprintf("%.1f", hasty),
			wanted:  fmt.Sprintf("ratio ≥ %d, at least %d", wantRetryTimes, wantRetryTimesFloor),
			reached: hasty >= wantRetryTimes, floor: hasty >= wantRetryTimesFloor,
			limits: p.besideHasty(),
		},
		{
			work: title, figure: each(retry),
			beside: fmt.Sprintf("one by one, each record waiting %s for company: %s", millis(clientWait), each(p.patient.perSecond())),
			ratio:  fmt.Sprintf("%.0f", patient),
			wanted: noDemand, reached: true,
			limits: fmt.Sprintf("of the %.1f ms of a message, %s are that timer's (`linger.ms`)",
				1000*quotient(1, p.patient.perSecond()), millis(clientWait)),
		},
		{
			work:   fmt.Sprintf("fixing the selection of a retry-all of %s", thousands(p.created.n)),
			figure: seconds(p.created.took),
			beside: "the whole retry-all: " + seconds(p.took),
			ratio:  fmt.Sprintf("%.3f", quotient(p.created.took.Seconds(), p.took.Seconds())),
			wanted: noDemand, reached: true, limits: "one statement, one process of PostgreSQL",
		},
		memoryLine(fmt.Sprintf("memory of the API, retry-all of %s in a table of %s", thousands(p.n), thousands(p.opts.rows())), p.memory),
		p.lookedLine(),
	}
}

// besideBare says what of a record's time is not the database's: that alone keeps
// retry-all below the bare SQL on the same processors.
func (p *retryPart) besideBare() string {
	own := p.cpu.each("postgres", p.n)
	others := p.cpu.each("api", p.n) + p.cpu.each("java", p.n)
	bare := p.bare.cpu.each("postgres", p.bare.n) + p.bare.cpu.each("bench", p.bare.n)
	most := quotient(float64(bare), float64(bare+others))
	return fmt.Sprintf("a record takes PostgreSQL %d µs and the bare SQL with its client %d µs; API and Kafka take %d µs of "+
		"the same processors, so no more than %.2f would be left if PostgreSQL took no more than the bare SQL",
		own.Microseconds(), bare.Microseconds(), others.Microseconds(), most)
}

// besideHasty says how far retry-all could get on these processors.
func (p *retryPart) besideHasty() string {
	all := time.Duration(0)
	for _, own := range p.cpu.by {
		all += own
	}
	record := all / time.Duration(max(p.n, 1))
	cores := runtime.NumCPU()
	most := quotient(float64(cores)*quotient(float64(time.Second), float64(record)), p.hasty.perSecond())
	return fmt.Sprintf("a record takes %d µs of retry-all's processors, so %d cores can give no more than ratio %.0f; one by one: %s",
		record.Microseconds(), cores, most, p.hasty.cpu.limits(p.hasty.n, "message", 1))
}

// each is what a record took of the processes of a name.
func (u usage) each(name string, n int) time.Duration { return u.by[name] / time.Duration(max(n, 1)) }

func (p *retryPart) profiles() []profile { return []profile{p.profile} }

func (p *retryPart) method() string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	say("- **Retry-all.** One `POST /api/v1/dlq/{topic}/retry-all` to one API process, while the\n"+
		"  table holds %s messages. The time, %.1f s, is the request's: the selection is\n"+
		"  stored as a redrive, every message is claimed, published with `acks=all`, and its result,\n"+
		"  its attempt and its line of the audit trail are stored before the answer. Processor time:\n"+
		"  %s.\n", thousands(p.opts.rows()), p.took.Seconds(), p.cpu.spent())
	b.WriteString(p.memoryMethod())
	say("- **Kafka's producer performance tool** is `org.apache.kafka.tools.ProducerPerformance` with\n"+
		"  `acks=all` and all else by default: %s records of %s bytes, which is what key, value and\n"+
		"  headers of a retried record take, into as many partitions, while nothing else runs. The time\n"+
		"  is the tool's own, so without the start of the JVM, but with its warming up. It said: %s.\n",
		thousands(p.produced.n), thousands(p.produced.bytes), p.produced.said)
	say("- **Bare SQL.** %s messages of the same table, by the same driver, with %d connections and\n"+
		"  %d messages a statement: one UPDATE that claims, one statement that marks as resolved and\n"+
		"  inserts the attempts. No record is read, nothing is sent, nobody's rights are checked, no\n"+
		"  redrive, no result of one and no audit line is kept, and the ids are known beforehand. It\n"+
		"  has both cores for itself; retry-all shares them with Kafka and the API.\n",
		thousands(p.bare.n), bareWorkers, bareBatch)
	say("- **One by one.** Pages of %d; every message is sent with `acks=all` and a new key, and then\n"+
		"  marked by one UPDATE, in auto-commit: %d messages by a client that sends a record as soon as\n"+
		"  it has it, which the demand is on. %d more are sent with a linger of %s, a timer for which a\n"+
		"  client waits for company of a record before it sends it: the default of the C library for\n"+
		"  Kafka and of what is built on it. Nothing is at work in that time, so nothing is demanded.\n",
		onePage, p.hasty.n, p.patient.n, millis(clientWait))
	say("- **Fixing the selection** is the time of the same request with `Prefer: respond-async`, for\n" +
		"  another topic, sent to an API that carries nothing out; its other part is one HTTP answer.\n")
	return b.String()
}
