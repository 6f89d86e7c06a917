package ingest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/internal/test/stores"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// plant gives a test a real Kafka and a real PostgreSQL, with names of topics that no other test uses.
type plant struct {
	t       testing.TB
	prefix  string
	cluster *broker.Cluster
	admin   *kafka.Client
	db      *sqlx.DB
}

func newPlant(t testing.TB) *plant {
	t.Helper()
	cfg := broker.DefaultConfig()
	cfg.Brokers = stacktest.Kafka(t)
	cluster := check.Must(broker.Open(cfg))(t)
	t.Cleanup(func() { cluster.Close() })
	return &plant{t: t, prefix: "ingest-" + uuid.NewString()[:8], cluster: cluster, db: postgrestest.Open(t), admin: stacktest.Admin(t)}
}

func (p *plant) topic(name string) string { return p.prefix + "." + name + ".dlq.v1" }

// create creates a topic; it tries again while a topic of that name is being deleted.
func (p *plant) create(name string, partitions int) string {
	p.t.Helper()
	topic := p.topic(name)
	check.Eventually(p.t, "topic "+topic+" is made", func() bool {
		res, err := p.admin.CreateTopics(p.ctx(), &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{
			Topic: topic, NumPartitions: partitions, ReplicationFactor: -1,
		}}})
		return err == nil && res.Errors[topic] == nil
	})
	check.Eventually(p.t, "topic "+topic+" is known", func() bool {
		topics, err := p.cluster.Topics(p.ctx(), topic)
		return err == nil && topics[0].Err == nil && len(topics[0].Partitions) == partitions && topics[0].Partitions[0].Leader >= 0
	})
	p.t.Cleanup(func() { stacktest.DeleteTopic(p.t, topic) })
	return topic
}

func (p *plant) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	p.t.Cleanup(cancel)
	return ctx
}

func (p *plant) produce(topic string, partition int32, n int) {
	p.t.Helper()
	records := make([]broker.Record, n)
	for i := range records {
		records[i].Value = fmt.Appendf(nil, `{"partition":%d,"n":%d}`, partition, i)
	}
	res := p.cluster.NewProducer(broker.ProducerConfig{Timeout: 20 * time.Second}).Produce(p.ctx(), part(topic, partition), records)
	check.NoError(p.t, res.Err())
}

func (p *plant) ingester(options ...Option) *Ingester {
	p.t.Helper()
	patterns := check.Must(deadletter.ParsePatterns(p.prefix + ".*.dlq.v1"))(p.t)
	decoder := check.Must(deadletter.New(deadletter.Config{}, patterns))(p.t)
	cfg := DefaultConfig()
	cfg.DiscoveryInterval, cfg.SessionTimeout = 250*time.Millisecond, 6*time.Second
	return New(cfg, p.prefix, patterns, p.cluster, decoder, stores.Fill[Stores](postgres.New(p.db)), prometheus.NewRegistry(), p.log(), options...)
}

// log returns a logger whose entries are shown when the test fails.
func (p *plant) log() *zap.Logger {
	core, logs := observer.New(zap.InfoLevel)
	p.t.Cleanup(func() {
		if !p.t.Failed() {
			return
		}
		for _, e := range logs.All() {
			p.t.Log(e.Time.Format(time.TimeOnly), e.Level, e.Message, e.ContextMap())
		}
	})
	return zap.New(core)
}

// run starts a new ingester.
func (p *plant) run() (stop func()) { return p.runThis(p.ingester()) }

// runThis runs an ingester. stop ends it and waits for its end. The end of the test ends the ingester too.
func (p *plant) runThis(i *Ingester) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- i.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			check.True(p.t, err == nil, "Run = %v, want nil", err)
		case <-time.After(40 * time.Second):
			p.t.Error("Run did not return 40 s after its context ended")
		}
	})
	p.t.Cleanup(stop)
	return stop
}

func (p *plant) count(topic string) (rows int) {
	p.t.Helper()
	err := p.db.Get(&rows, `SELECT count(*) FROM dlq.dlq_messages m JOIN dlq.topics t ON t.id = m.dlq_topic_id WHERE t.name = $1`, topic)
	if err != nil {
		p.t.Logf("count messages: %v", err) // the test may be killing the database's connections
		return -1
	}
	return rows
}

// stored waits until a topic has at least that many messages. Then it checks that the topic has no more messages, that
// no position is stored twice, and that the consumer group's offsets are committed.
func (p *plant) stored(topic string, partitions int, want int) {
	p.t.Helper()
	check.Eventually(p.t, fmt.Sprintf("%d messages of %s; now %d", want, topic, p.count(topic)), func() bool { return p.count(topic) >= want })
	var twice int
	check.NoError(p.t, p.db.Get(&twice, `SELECT count(*) FROM (SELECT 1 FROM dlq.dlq_messages
		GROUP BY dlq_incarnation_id, dlq_partition, dlq_offset HAVING count(*) > 1) d`))
	if got := p.count(topic); got != want || twice != 0 {
		p.t.Errorf("messages of %s = %d, positions stored twice = %d; want %d, 0", topic, got, twice, want)
	}
	p.caughtUp(topic, partitions)
}

// caughtUp waits until the committed offsets are equal to the end offsets of the logs, and checks that the positions
// are too.
func (p *plant) caughtUp(topic string, partitions int) {
	p.t.Helper()
	var parts []broker.TopicPartition
	for n := range partitions {
		parts = append(parts, part(topic, int32(n)))
	}
	ends := check.Must(p.cluster.EndOffsets(p.ctx(), parts))(p.t)
	check.Eventually(p.t, "committed offsets at the end of "+topic, func() bool {
		committed, err := p.cluster.CommittedOffsets(p.ctx(), p.prefix, parts)
		for _, tp := range parts {
			if committed[tp] != ends[tp] {
				return false
			}
		}
		return err == nil
	})
	for _, tp := range parts {
		var next int64
		err := p.db.Get(&next, `SELECT next_offset FROM dlq.ingest_positions p
			JOIN dlq.topic_incarnations i ON i.id = p.incarnation_id JOIN dlq.topics t ON t.id = i.topic_id
			WHERE t.name = $1 AND p.partition = $2 ORDER BY i.id DESC LIMIT 1`, topic, tp.Partition)
		check.True(p.t, err == nil && next == ends[tp], "position of %s = %d, %v; want the log's end %d", tp, next, err, ends[tp])
	}
}

func TestMembersThatComeAndGoStoreEachRecordOnce(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	const partitions = 6
	topic := p.create("storm", partitions)
	p.run()
	total := 0
	for range 3 {
		member := p.ingester()
		leave := p.runThis(member)
		check.Eventually(p.t, "the member has partitions", func() bool { return testutil.CollectAndCount(member.metrics.lag) > 0 })
		for n := range 30 {
			p.produce(topic, int32(n%partitions), 100)
			total += 100
		}
		check.Eventually(p.t, "half of it is stored", func() bool { return p.count(topic) >= total/2 })
		check.Eventually(p.t, "the member stored something", func() bool { return testutil.ToFloat64(member.metrics.stored.WithLabelValues(topic)) > 0 })
		leave()
	}
	p.stored(topic, partitions, total)
}

func TestAGroupResetToTheEarliestOffsetAddsNothing(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	topic := p.create("reset", 2)
	p.produce(topic, 0, 100)
	p.produce(topic, 1, 50)
	stop := p.run()
	p.stored(topic, 2, 150)
	stop()
	check.Must(p.admin.OffsetCommit(p.ctx(), &kafka.OffsetCommitRequest{
		GroupID: p.prefix, GenerationID: -1,
		Topics: map[string][]kafka.OffsetCommit{topic: {{Partition: 0, Offset: 0}, {Partition: 1, Offset: 0}}},
	}))(t)
	p.run()
	p.caughtUp(topic, 2) // passes only if the ingester continues from the store's positions, because the committed offsets are 0
	p.produce(topic, 0, 1)
	p.stored(topic, 2, 151)
}

func TestATopicDeletedAndMadeAgainStartsOver(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	topic, other := p.create("again", 2), p.create("other", 1)
	p.run()
	p.produce(topic, 0, 20)
	p.stored(topic, 2, 20)
	stacktest.DeleteTopic(t, topic)
	p.produce(other, 0, 5)
	p.create("again", 2)
	p.produce(topic, 0, 30)
	p.produce(topic, 1, 7)
	p.stored(topic, 2, 57)
	p.stored(other, 1, 5)
}

func TestANewTopicIsReadWhileRunning(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	p.run()
	first := p.create("first", 1)
	p.produce(first, 0, 10)
	p.stored(first, 1, 10)
	second := p.create("second", 3)
	p.produce(second, 2, 10)
	p.stored(second, 3, 10)
	check.Must(p.admin.CreatePartitions(p.ctx(), &kafka.CreatePartitionsRequest{
		Topics: []kafka.TopicPartitionsConfig{{Name: first, Count: 3}},
	}))(t)
	check.Eventually(p.t, "the topic has grown", func() bool {
		topics, err := p.cluster.Topics(p.ctx(), first)
		return err == nil && len(topics[0].Partitions) == 3
	})
	p.produce(first, 2, 10)
	p.stored(first, 3, 20)
}

func TestDatabaseConnectionsThatAreCutLoseAndDoubleNothing(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	const partitions, rounds = 4, 25
	topic := p.create("cut", partitions)
	killer := check.Must(sqlx.Connect("postgres", stacktest.Postgres(t)))(t)
	defer killer.Close()
	var database string
	check.NoError(t, p.db.Get(&database, `SELECT current_database()`))
	cut := func(where string) {
		t.Helper()
		var killed []bool
		err := killer.Select(&killed, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1`+where, database)
		check.NoError(t, err)
	}
	i := p.ingester()
	p.runThis(i)
	p.produce(topic, 0, 400)
	check.Eventually(p.t, "the first are stored", func() bool { return p.count(topic) >= 400 })

	// The test locks the table of the positions. So the ingester's statement is waiting when the test cuts its
	// connection, and waits again when the driver repeats the statement on a new connection.
	holder := p.db.MustBeginTx(p.ctx(), nil)
	holder.MustExec(`LOCK TABLE dlq.ingest_positions IN SHARE ROW EXCLUSIVE MODE`)
	p.produce(topic, 0, 400)
	check.Eventually(p.t, "a store fails", func() bool {
		cut(` AND wait_event_type = 'Lock'`)
		return testutil.ToFloat64(i.metrics.storeFailures) > 0
	})
	check.NoError(t, holder.Rollback())

	for n := 2; n < rounds; n++ {
		p.produce(topic, int32(n%partitions), 400)
		cut("")
		check.Eventually(p.t, "some records are stored", func() bool { return p.count(topic) >= n*100 })
	}
	check.Eventually(p.t, "all is stored", func() bool { return p.count(topic) >= rounds*400 })
	p.stored(topic, partitions, rounds*400)
}

func TestRecordsOfAbortedTransactionsAreNoMessages(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	topic := p.create("transactions", 1)
	client, err := kgo.NewClient(kgo.SeedBrokers(stacktest.Kafka(t)...), kgo.TransactionalID(p.prefix), kgo.DefaultProduceTopic(topic))
	check.NoError(t, err)
	defer client.Close()
	p.run()
	for n := range 6 {
		check.NoError(t, client.BeginTransaction())
		commit := kgo.TransactionEndTry(n%2 == 0)
		text := map[kgo.TransactionEndTry]string{kgo.TryCommit: "committed", kgo.TryAbort: "aborted"}[commit]
		for range 5 {
			check.NoError(t, client.ProduceSync(p.ctx(), kgo.StringRecord(text)).FirstErr())
		}
		check.NoError(t, client.EndTransaction(p.ctx(), commit))
	}
	p.stored(topic, 1, 15)
	var values []string
	check.NoError(t, p.db.Select(&values, `SELECT convert_from(value, 'UTF8') FROM dlq.messages`))
	for _, v := range values {
		check.True(t, strings.HasPrefix(v, "committed"), "value = %q, want only committed records", v)
	}
}
