package redrive_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/internal/test/stores"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/redrive"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
	"github.com/dlq-manager/dlq-manager/pkg/republisher"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(restorerVariable); text != "" {
		beRestorer(text)
		return
	}
	stacktest.Main(m)
}

// system is a Service that uses a real store and a real broker.
type system struct {
	testing.TB
	*redrive.Service
	store     *postgres.Store
	publisher redrive.Publisher
	cluster   *broker.Cluster
	topic     string
	origin    entity.Confidence // of messages that fill stores; "" for FromHeader
}

const partitions = 6

func newSystem(t testing.TB, changes ...func(*republisher.Config)) *system {
	t.Helper()
	cfg := broker.DefaultConfig()
	cfg.Brokers = stacktest.Kafka(t)
	cluster := check.Must(broker.Open(cfg))(t)
	t.Cleanup(func() { cluster.Close() })
	patterns := check.Must(deadletter.ParsePatterns("*.dlq.v1"))(t)
	sending := republisher.DefaultConfig()
	for _, change := range changes {
		change(&sending)
	}
	publisher := check.Must(republisher.New(sending, patterns, cluster, cluster.NewProducer(broker.ProducerConfig{})))(t)
	s := &system{TB: t, publisher: publisher, store: postgres.New(postgrestest.Open(t)), cluster: cluster}
	s.Service = redrive.New(redrive.DefaultConfig(), stores.Fill[redrive.Stores](s.store), publisher, prometheus.NewRegistry(), zap.NewNop())
	s.createTopic()
	return s
}

func (s *system) createTopic() {
	s.Helper()
	s.topic = "redrive." + strings.ReplaceAll(s.Name(), "/", "-") + "." + uuid.NewString()[:8]
	stacktest.CreateTopic(s, s.topic, partitions)
}

// fill stores n dead letters with values of size bytes.
func (s *system) fill(n, size int) {
	s.Helper()
	value := []byte(strings.Repeat("x", size))
	s.fillWith(n, func(int) []byte { return value })
}

// fillWith stores n dead letters with the values that the function value returns.
func (s *system) fillWith(n int, value func(i int) []byte) {
	s.Helper()
	ctx := s.Context()
	name := s.topic + ".dlq.v1"
	refs := check.Must(s.store.OpenTopics(ctx, []repository.Topic{{Name: name, Incarnation: "1"}}))(s)
	source := repository.Partition{Incarnation: refs[0].Incarnation}
	check.Must(s.store.OpenPosition(ctx, []repository.Position{{Partition: source}}))(s)
	for from := 0; from < n; from += 1000 {
		to := min(from+1000, n)
		batch := repository.Batch{Ranges: []repository.Range{{Partition: source, From: int64(from), To: int64(to)}}}
		for i := from; i < to; i++ {
			m := entity.NewMessage(s.topic, "boom", time.Now())
			m.Source = entity.Source{Topic: name, TopicID: refs[0].TopicID, Incarnation: refs[0].Incarnation, Offset: int64(i)}
			m.Record = entity.Record{Key: fmt.Append(nil, i), Value: value(i), Size: int64(len(value(i)))}
			m.Origin.Confidence = cmp.Or(s.origin, entity.FromHeader)
			partition := int32(i % partitions)
			m.Origin.Partition = &partition
			batch.Messages = append(batch.Messages, m)
		}
		stored, err := s.store.Store(ctx, batch)
		check.Require(s, err == nil && len(stored.Ranges) == 1, "Store = %v, %v, want one range", stored, err)
	}
}

// log returns the keys of the records in one partition of the test's topic, in order.
func (s *system) log(partition int32) []string {
	s.Helper()
	tp := broker.TopicPartition{Topic: s.topic, Partition: partition}
	ends := check.Must(s.cluster.EndOffsets(s.Context(), []broker.TopicPartition{tp}))(s)
	var keys []string
	check.NoError(s, s.cluster.Scan(s.Context(), tp, 0, ends[tp], "", func(r broker.Record) bool {
		keys = append(keys, string(r.Key))
		return false
	}))
	return keys
}

func TestRealServers(t *testing.T) {
	t.Run("RetryAllSendsEachOnceInOrder", func(t *testing.T) {
		const n = 3001
		s := newSystem(t)
		s.fill(n, 100)
		r, err := s.finish(s.Service, s.begin().ID)
		check.True(t, err == nil && r.Counts.Succeeded == n && r.Selected == n, "redrive = %+v, %v, want %d succeeded", r, err, n)
		for p := range int32(partitions) {
			var want []string
			for i := int(p); i < n; i += partitions {
				want = append(want, fmt.Sprint(i))
			}
			got := s.log(p)
			check.True(t, slices.Equal(got, want), "partition %d has %d records, want %d in order", p, len(got), len(want))
		}
	})

	t.Run("DrainedRunIsTakenUpByTheNext", func(t *testing.T) {
		const n = 4000
		s := newSystem(t)
		s.fill(n, 100)
		r := s.begin()
		ctx, drain := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() {
			s.RunRedrives(ctx)
			close(over)
		}()
		check.Eventually(s, "a record", func() bool { return len(s.log(0)) > 0 })
		drain()
		<-over
		other := redrive.New(redrive.DefaultConfig(), stores.Fill[redrive.Stores](s.store), s.publisher, prometheus.NewRegistry(), zap.NewNop())
		got, err := s.finish(other, r.ID)
		check.True(t, err == nil && got.Counts.Succeeded == n, "redrive = %+v, %v, want %d succeeded", got.Counts, err, n)
		sent := 0
		for p := range int32(partitions) {
			sent += len(s.log(p))
		}
		check.True(t, sent == n, "sent %d records, want %d", sent, n)
	})
}

func (s *system) begin() entity.Redrive {
	s.Helper()
	r := check.Must(s.Begin(s.Context(), repository.NewRedrive{
		Action: entity.RedriveRetry, Selection: entity.Selection{Filter: entity.Filter{Topic: s.topic}}, Cause: entity.By("tester"),
	}))(s)
	return r
}

// finish runs the redrives of the service carrier until the redrive with this id is over.
func (s *system) finish(carrier *redrive.Service, id uuid.UUID) (entity.Redrive, error) {
	ctx, stop := context.WithCancel(s.Context())
	over := make(chan struct{})
	go func() {
		carrier.RunRedrives(ctx)
		close(over)
	}()
	r, err := carrier.Wait(s.Context(), id)
	stop()
	<-over
	return r, err
}

// forgetful is a store that refuses to store how attempts ended, as if the process had died after each publish.
type forgetful struct{ *postgres.Store }

func (forgetful) Finish(context.Context, []repository.Result, entity.AuditInfo) ([]repository.Finished, error) {
	return nil, entity.ErrUnavailable
}

func TestRealServersOneMessage(t *testing.T) {
	t.Run("CrashAfterPublishIsSettledFromTheLog", func(t *testing.T) {
		s := newSystem(t)
		s.fill(1, 100)
		cfg := redrive.DefaultConfig()
		// long enough to send the record on a busy machine, because a record is sent only in the first half of this
		// time
		cfg.ClaimExpiry = 4 * time.Second
		dying := redrive.New(cfg, stores.Fill[redrive.Stores](forgetful{s.store}), s.publisher, prometheus.NewRegistry(), zap.NewNop())
		id := s.first()
		check.Is(t, check.Err(dying.Retry(t.Context(), entity.RetryOrder{ID: id, Cause: entity.By("tester")})), entity.ErrUnavailable, "Retry")
		check.Eventually(s, "a settled claim", func() bool {
			check.NoError(t, s.Settle(t.Context()))
			m, err := s.store.Get(t.Context(), id, 0)
			return err == nil && m.Status == entity.Resolved && m.RetryCount == 1
		})
		got := s.log(0)
		check.True(t, slices.Equal(got, []string{"0"}), "log = %v, want the record once", got)
	})

	t.Run("OneOfFiftyPublishes", func(t *testing.T) {
		s := newSystem(t)
		s.fill(1, 100)
		id := s.first()
		errs := make(chan error)
		for range 50 {
			go func() {
				_, err := s.Retry(t.Context(), entity.RetryOrder{ID: id, Cause: entity.By("tester")})
				errs <- err
			}()
		}
		published := 0
		for range 50 {
			var conflict *entity.NotRetryableError
			switch err := <-errs; {
			case err == nil:
				published++
			case !errors.As(err, &conflict) || conflict.Status == entity.Pending:
				t.Errorf("Retry = %v, want a conflict with RETRYING or RESOLVED", err)
			}
		}
		got := s.log(0)
		check.True(t, published == 1 && len(got) == 1, "published %d, log = %v, want one of both", published, got)
	})
}

// first returns the id of the topic's oldest message.
func (s *system) first() uuid.UUID {
	s.Helper()
	list, err := s.store.List(s.Context(), s.topic, repository.Page{Number: 1, Size: 1000})
	check.Require(s, err == nil && len(list.Messages) != 0, "List = %v, %v, want messages", list.Messages, err)
	return list.Messages[len(list.Messages)-1].ID
}

// BenchmarkRetryAll sends 1 KB records from a real store to a real broker.
func BenchmarkRetryAll(b *testing.B) {
	const n = 100_000
	for b.Loop() {
		b.StopTimer()
		s := newSystem(b)
		s.fill(n, 1024)
		runtime.GC()
		b.StartTimer()
		began := time.Now()
		r, err := s.finish(s.Service, s.begin().ID)
		check.Require(b, err == nil && r.Counts.Succeeded == n, "redrive = %+v, %v, want all to succeed", r.Counts, err)
		b.ReportMetric(n/time.Since(began).Seconds(), "records/s")
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		b.ReportMetric(float64(memory.HeapSys)/(1<<20), "MB-heap")
	}
}
