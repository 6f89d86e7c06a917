package ingest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/ingest/internal/consumergroups"
	"github.com/dlq-manager/dlq-manager/pkg/ingest/internal/errorgroups"
	"github.com/dlq-manager/dlq-manager/pkg/ingest/internal/health"
	"github.com/dlq-manager/dlq-manager/pkg/ingest/internal/topics"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// errFenced says that another ingester has moved the position of a partition, and so reads the same partition.
var errFenced = errors.New("another ingester moved a position")

// Cluster is the part of Kafka that ingest uses.
type Cluster interface {
	Topics(ctx context.Context, names ...string) ([]broker.Topic, error)
	StartOffsets(ctx context.Context, parts []broker.TopicPartition) (map[broker.TopicPartition]int64, error)
	EndOffsets(ctx context.Context, parts []broker.TopicPartition) (map[broker.TopicPartition]int64, error)
	StableOffsets(ctx context.Context, parts []broker.TopicPartition) (map[broker.TopicPartition]int64, error)
	Fetch(ctx context.Context, req broker.FetchRequest) (broker.FetchResponse, error)
	Group(cfg broker.GroupConfig) (*kafka.ConsumerGroup, error)
	Mark(ctx context.Context, tp broker.TopicPartition, offset int64) (latest int64, crc uint32, found bool, err error)
}

// Stores are the parts of a store that ingest uses. Their methods behave like those of the same names in package
// repository.
type Stores struct {
	Records        repository.Ingest
	Quarantine     QuarantineStore
	ErrorGroups    ErrorGroupStore
	ConsumerGroups ConsumerGroupStore
	Mappings       MappingStore
}

// Ingester is one member of the consumer group of ingesters. Run does the work.
type Ingester struct {
	cfg           Config
	consumerGroup string
	topics        deadletter.Patterns
	cluster       Cluster
	stores        Stores
	metrics       *metrics
	log           *zap.Logger

	decoder atomic.Pointer[deadletter.Decoder] // replaced when the operators' rules change
	rules   rules
	origins deadletter.Origins // declarations that decide which returns are confirmed; see repository.Batch.Declared

	shareGroups ShareGroups // nil when the ingester reads no topics of share groups

	tracer        trace.Tracer  // nil when no spans are made
	fingerprinter Fingerprinter // nil when messages get no error groups
	admitted      errorgroups.Cache

	known  atomic.Pointer[map[string]bool] // the topics in the last list of the cluster's topics
	health health.Uses

	// Only the loop that finds topics uses described.
	described topics.Described

	quarantine     quarantine
	consumerGroups consumergroups.Cache

	watchdog health.Watchdog

	// Only the loop that joins the consumer group uses reading. It is nil before the first assignment.
	reading *reading

	heavy     *semaphore.Weighted // held while a batch larger than batchBytes is stored, or while the ingester tries to store a quarantined record
	abandoned atomic.Int64        // number of calls to the store that were abandoned and have not returned
}

// The kinds of work whose last result is recorded, each with the dependency that it uses. Each kind of work is recorded
// separately, so that its success does not hide the failure of other work with the same dependency.
const (
	topicsHealth        = "topics"
	consumerGroupHealth = "group"
	fetchHealth         = "fetch"
	databaseHealth      = "database"
)

// discoveryLoop is the name of the loop that finds topics. Each fetcher has a loop with another name.
const discoveryLoop = "discovery"

func fetchLoop(leader int32) string { return fmt.Sprintf("fetch from broker %d", leader) }

// exists reports whether the topic is in the last list of the cluster's topics.
func (i *Ingester) exists(topic string) bool {
	known := i.known.Load()
	return known != nil && (*known)[topic]
}

func (i *Ingester) kafkaFailed(ctx context.Context, use, doing string, err error, where ...zap.Field) {
	if ctx.Err() != nil {
		return
	}
	i.health.Set(use, err)
	i.log.Warn("kafka does not answer", append(where, zap.String("doing", doing), zap.Error(err))...)
}

// backoff returns the pause after a failed try. The pause doubles with each try, from 100 ms to 5 s.
func backoff(attempt int) time.Duration {
	return min(100*time.Millisecond<<min(attempt, 10), 5*time.Second)
}
