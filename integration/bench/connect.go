package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/dlq-manager/dlq-manager/integration/child"
	"github.com/dlq-manager/dlq-manager/integration/programs"
	"github.com/dlq-manager/dlq-manager/integration/stack"
)

const (
	connectPairs = 3
	connectTasks = 4
	connectBatch = 2000

	// connectTimeout limits one ingest: a worker whose tasks have failed does not exit, so without a limit the ingest
	// would never end.
	connectTimeout = 5 * time.Minute
)

// connectTable is the table that Debezium's JDBC sink would create by itself, but with a better order of the columns.
const connectTable = `CREATE TABLE connect_letters (
	__connect_topic text, __connect_partition int, __connect_offset bigint, value bytea,
	PRIMARY KEY (__connect_topic, __connect_partition, __connect_offset))`

// comparison measures the ingester against Kafka Connect.
type comparison struct {
	*side
	topic string
	size  int64 // size in bytes of the values of all records
	n     int

	ours, theirs []section
}

func kafkaConnect(ctx context.Context, s *side) []figure {
	c := &comparison{side: s, n: s.opts.count(recordsToConnect)}
	prefix := fmt.Sprintf("%sconnect%d", s.id, s.next())
	c.topic = deadLetterTopic(prefix + "-0")
	s.kafka.create(ctx, c.topic, originalTopic(prefix+"-0"))
	c.size = s.kafka.produce(ctx, prefix+"-0", c.n)
	for i := range 2 * connectPairs {
		turn := c.ingester
		if (i+1)/2%2 == 1 { // the products take the first turn of a pair alternately
			turn = c.sink
		}
		d := s.database(ctx, "connect", prefix)
		check(d.run(ctx, connectTable))
		d.settle(ctx)
		turn(ctx, d)
		s.drop(ctx, d)
	}
	return c.figures()
}

func (c *comparison) figures() []figure {
	medians := func(name, unit string, value func(section) float64) figure {
		var ours, theirs []float64
		for i := range c.ours {
			ours, theirs = append(ours, value(c.ours[i])), append(theirs, value(c.theirs[i]))
		}
		return c.ours[0].figure("one topic: "+name, unit, median(ours)).comparedWith("Kafka Connect", median(theirs))
	}
	rate := medians("ingest", "/s", func(i section) float64 { return i.perSecond() })
	postgres := medians("processor time of PostgreSQL", "µs a row", func(i section) float64 { return i.micros("postgres") })
	all := medians("processor time of all programs", "µs a row", func(i section) float64 { return i.micros("") })
	memory := medians("memory", "MB", func(i section) float64 { return i.memory })
	return []figure{rate.limit(1.1 * rate.ComparedValue), postgres.limit(2.2 * postgres.ComparedValue), all.limit(all.ComparedValue), memory}
}

func (c *comparison) ingester(ctx context.Context, d *database) {
	c.with(ctx, "ingester", d, func(p program) {
		c.ours = append(c.ours, c.watch(ctx, p, "ingester", func() int { return p.stored(ctx) }))
	})
	d.expectIngested(ctx, c.n, c.size)
}

// countConnect counts the rows of a topic: the sink stores each partition in order, so the last offset of a partition
// gives the number of its rows.
const countConnect = `SELECT coalesce(sum(n), 0) FROM generate_series(0, $2::int - 1) p, LATERAL (
	SELECT max(__connect_offset) + 1 n FROM connect_letters WHERE __connect_topic = $1 AND __connect_partition = p) s`

func (c *comparison) sink(ctx context.Context, d *database) {
	p := c.startConnect(ctx, d)
	defer p.Kill() // killed and not stopped, because on SIGTERM a JVM exits with another code than 0
	c.theirs = append(c.theirs, c.watch(ctx, p, "connect", func() int { return int(d.number(ctx, countConnect, c.topic, partitions)) }))
	expect("rows of Kafka Connect", d.number(ctx, `SELECT count(*) FROM connect_letters`), int64(c.n))
	expect("bytes of its values", d.number(ctx, `SELECT sum(octet_length(value)) FROM connect_letters`), c.size)
}

// watch measures how long an ingest takes, from the first call of count that finds rows to the first one that finds all
// rows.
func (c *comparison) watch(ctx context.Context, p program, name string, count func() int) section {
	n := 0
	until := func(least int) {
		await(ctx, connectTimeout, 100*time.Millisecond, "all rows of "+p.Log, func() bool {
			p.alive()
			n = count()
			return n >= least
		})
	}
	until(1)
	first := n
	out := p.timed(func() int {
		until(c.n)
		return n - first
	})
	if usageNow().by[name] <= 0 {
		check(fmt.Errorf("invalid run: no processor time of %s", name))
	}
	return out
}

// startConnect starts a worker with the sink. Its process gets a name of its own: processor time is added up by process
// name, and the broker's process already has the name "java". The default header converter parses binary headers as
// text, and the sink fails on headers whose text looks like a list; so another converter is configured.
func (c *comparison) startConnect(ctx context.Context, d *database) program {
	password, _ := d.url.User.Password()
	write := func(name, text string) string {
		path := filepath.Join(c.folder, d.name+"-"+name+".properties")
		check(os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	worker := write("worker", fmt.Sprintf(`
bootstrap.servers=%s
listeners=http://127.0.0.1:0
plugin.discovery=service_load
connector.client.config.override.policy=All
key.converter=org.apache.kafka.connect.converters.ByteArrayConverter
value.converter=org.apache.kafka.connect.converters.ByteArrayConverter
header.converter=org.apache.kafka.connect.converters.ByteArrayConverter
offset.storage.file.filename=%s
`, strings.Join(c.brokers, ","), filepath.Join(c.folder, d.name+".offsets")))
	sink := write("sink", fmt.Sprintf(`
name=%s
connector.class=io.debezium.connector.jdbc.JdbcSinkConnector
tasks.max=%d
topics=%s
connection.url=jdbc:postgresql://%s%s
connection.username=%s
connection.password=%s
collection.name.format=connect_letters
insert.mode=insert
primary.key.mode=kafka
schema.evolution=none
batch.size=%d
consumer.override.max.poll.records=%[8]d
transforms=hoist
transforms.hoist.type=org.apache.kafka.connect.transforms.HoistField$Value
transforms.hoist.field=value
`, d.name, connectTasks, c.topic, d.url.Host, d.url.Path, d.url.User.Username(), password, connectBatch))
	cmd := must(stack.KafkaConnect(context.WithoutCancel(ctx), connectHeap, worker, sink))
	named := filepath.Join(c.folder, "connect")
	if err := os.Symlink(cmd.Path, named); !errors.Is(err, os.ErrExist) {
		check(err)
	}
	cmd.Path = named
	out := must(os.Create(filepath.Join(c.folder, d.name+".log")))
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	process := must(child.Start(cmd, syscall.SIGKILL))
	return program{&programs.Process{Process: process, Name: "connect", Log: out.Name()}}
}
