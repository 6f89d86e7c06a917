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

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlq-manager/dlq-manager/integration/child"
	"github.com/dlq-manager/dlq-manager/integration/stack"
)

// connectPart is ingest by the ingester and, in turns with it, by Kafka Connect with
// Debezium's JDBC sink: the same records, a new database and consumer group each.
type connectPart struct {
	*bench
	topic heap
	sent  sent

	ingester, connect []turn
}

// turn is one ingest of all records.
type turn struct {
	work         // from the first stored row that is seen to the last
	memory int64 // most that was resident, in bytes
}

const (
	connectRecords = 200_000
	connectPairs   = 3
	connectTasks   = 4
	connectBatch   = 2000
	connectHeapMB  = 2048 // what Kafka Connect's own start script gives it

	// connectPatience bounds one turn: a worker whose tasks failed does not end.
	connectPatience = 3 * time.Minute
)

func (p *connectPart) run(ctx context.Context) error {
	p.topic = heap{name: "connect", count: max(p.opts.share(connectRecords), 1)}
	if err := p.produceTopic(ctx); err != nil {
		return err
	}
	for i := range 2 * connectPairs {
		one := p.turnOfIngester
		if (i+1)/2%2 == 1 { // neither is always the first of a pair
			one = p.turnOfConnect
		}
		if err := p.inDatabase(ctx, fmt.Sprintf("bench_connect_%d", i), one); err != nil {
			return err
		}
	}
	return p.kafka.remove(ctx, p.topic.dead(), p.topic.original())
}

func (p *connectPart) produceTopic(ctx context.Context) (err error) {
	p.say("producing %d dead letters", p.topic.count)
	if err := p.kafka.create(ctx, p.topic.dead(), p.topic.original()); err != nil {
		return err
	}
	letters := newLetters()
	record := func(n int) *kgo.Record {
		r := letters.letter(p.topic.name, n)
		r.Topic = p.topic.dead()
		p.sent.value, p.sent.headers = len(r.Value), headerBytes(r)
		return r
	}
	p.sent.bytes, err = p.kafka.produce(ctx, p.topic.count, record)
	return err
}

// connectTable is as the sink would make it, but for the order of its columns.
const connectTable = `CREATE TABLE connect_letters (
	__connect_topic text, __connect_partition int, __connect_offset bigint, value bytea,
	PRIMARY KEY (__connect_topic, __connect_partition, __connect_offset))`

// inDatabase does one turn in a database that it makes and removes. The consumer
// group has the name of the database.
func (p *connectPart) inDatabase(ctx context.Context, name string, one func(context.Context, *database, string) error) (err error) {
	d, err := p.database(ctx, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.drop(ctx, d)) }()
	if _, err := d.ExecContext(ctx, connectTable); err != nil {
		return fmt.Errorf("make a table: %w", err)
	}
	if err := d.settle(ctx); err != nil {
		return err
	}
	return one(ctx, d, name)
}

func (p *connectPart) turnOfIngester(ctx context.Context, d *database, name string) error {
	prog := p.topic.only(p.program("ingester", d))
	prog.settings = append(prog.settings, "DLQ_KAFKA_CONSUMER_GROUP="+name)
	r, err := prog.serve(ctx)
	if err != nil {
		return err
	}
	t, err := p.watch(ctx, r, func(ctx context.Context) (int64, error) { return d.number(ctx, countCounters) })
	if err = errors.Join(err, r.stop()); err != nil {
		return err
	}
	p.ingester = append(p.ingester, t)
	return d.expectIngestedRows(ctx, p.topic.count, p.sent.bytes)
}

func (p *connectPart) turnOfConnect(ctx context.Context, d *database, name string) error {
	r, err := p.startConnect(ctx, d, name)
	if err != nil {
		return err
	}
	// Each partition is stored in order, so its last offset gives its number of rows.
	t, err := p.watch(ctx, r, func(ctx context.Context) (int64, error) {
		return d.number(ctx, `SELECT coalesce(sum(n), 0) FROM generate_series(0, $2 - 1) p, LATERAL (
			SELECT max(__connect_offset) + 1 n FROM connect_letters
			WHERE __connect_topic = $1 AND __connect_partition = p) s`, p.topic.dead(), partitions)
	})
	r.kill() // a JVM that SIGTERM ends does not exit with 0
	if err != nil {
		return err
	}
	p.connect = append(p.connect, t)
	return d.expect(ctx,
		expectation{"rows of Kafka Connect", `SELECT count(*) FROM connect_letters`, int64(p.topic.count)},
		expectation{"bytes of values", `SELECT sum(octet_length(value)) FROM connect_letters`, p.sent.bytes})
}

// startConnect starts a worker with the sink. The process has a name of its own, as
// cpuNow adds up processor time by name and the broker is "java" too. The default
// converter of headers parses Spring's binary ones as text, and the sink fails at
// those that look like a list: offset 23,389 is "[]".
func (p *connectPart) startConnect(ctx context.Context, d *database, name string) (*running, error) {
	files := map[string]string{
		"worker": `
bootstrap.servers=` + strings.Join(p.stack.Brokers(), ",") + `
listeners=http://127.0.0.1:0
plugin.discovery=service_load
connector.client.config.override.policy=All
key.converter=org.apache.kafka.connect.converters.ByteArrayConverter
value.converter=org.apache.kafka.connect.converters.ByteArrayConverter
header.converter=org.apache.kafka.connect.converters.ByteArrayConverter
offset.storage.file.filename=` + filepath.Join(p.folder, name+".offsets"),
		"sink": d.connectSink(name, p.topic.dead()),
	}
	var paths []string
	for _, file := range []string{"worker", "sink"} {
		path := filepath.Join(p.folder, name+"-"+file+".properties")
		if err := os.WriteFile(path, []byte(files[file]), 0o600); err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	cmd, err := stack.KafkaConnect(context.WithoutCancel(ctx), connectHeapMB, paths...)
	if err != nil {
		return nil, err
	}
	named := filepath.Join(p.folder, "connect")
	if err := os.Symlink(cmd.Path, named); err != nil && !os.IsExist(err) {
		return nil, err
	}
	cmd.Path = named
	out, err := os.Create(filepath.Join(p.folder, name+".log"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }()
	cmd.Stdout, cmd.Stderr = out, out
	process, err := child.Start(cmd, syscall.SIGKILL)
	return &running{program: program{name: "connect", log: out.Name()}, Process: process}, err
}

func (d *database) connectSink(name, topic string) string {
	password, _ := d.url.User.Password()
	return fmt.Sprintf(`
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
`, name, connectTasks, topic, d.url.Host, d.url.Path, d.url.User.Username(), password, connectBatch)
}

// watch times a turn from the first look that finds rows to the first that finds all.
// What both do before, such as the start of a JVM and the join of a group, is not
// part of it, nor are the rows that the first look finds.
func (p *connectPart) watch(ctx context.Context, r *running, count func(context.Context) (int64, error)) (t turn, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, connectPatience,
		fmt.Errorf("%s has not stored all after %s: see %s", r.name, connectPatience, r.log))
	defer cancel()
	p.say("%s stores %d", r.name, p.topic.count)
	until := func(least int64) (n int64, err error) {
		err = p.timely(ctx, func(ctx context.Context) error {
			return poll(ctx, 20*time.Millisecond, func() (bool, error) {
				if err := r.alive(); err != nil {
					return false, err
				}
				n, err = count(ctx)
				return n >= least, err
			})
		})
		return n, err
	}
	first, err := until(1)
	if err != nil {
		return t, err
	}
	t.work, err = timed(func() (int, error) {
		all, err := until(int64(p.topic.count))
		return int(all - first), err
	})
	if err != nil {
		return t, err
	}
	p.say("%s: %s, %s", r.name, each(t.perSecond()), t.cpu.spent())
	if now, err := cpuNow(); err != nil || now.by[r.name] <= 0 {
		return t, errors.Join(err, fmt.Errorf("the run is worthless: no processor time of %s", r.name))
	}
	t.memory, err = peakMemory(r.Pid())
	return t, err
}
