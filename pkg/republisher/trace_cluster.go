package republisher

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/traces"
)

// What spans say is asked of the cluster.
const (
	lookUpTopics  = "look up topics"
	lookUpOffsets = "look up offsets"
	lookUpGroups  = "look up groups"
	fetch         = "fetch"
	scan          = "scan"

	typeReceive = "receive"
)

// tracedCluster makes a span of every question that is asked for the sake of a span
// which is recorded. There are none of their own: topics and groups are looked up all
// the time.
type tracedCluster struct {
	of     Cluster
	tracer oteltrace.Tracer
}

// asked returns what work answers, in a span.
func asked[T any](
	ctx context.Context, tracer oteltrace.Tracer, name string, attributes []attribute.KeyValue, work func(context.Context) (T, error),
) (T, error) {
	ctx, span := traces.Start(ctx, tracer, name, oteltrace.WithSpanKind(oteltrace.SpanKindClient), oteltrace.WithAttributes(attributes...))
	defer span.End()
	got, err := work(ctx)
	if err != nil {
		span.SetStatus(codes.Error, "")
		span.SetAttributes(traces.ErrorType.String(string(classOf(err))))
	}
	return got, err
}

// lookUp asks for what is not of one partition.
func lookUp[T any](ctx context.Context, c tracedCluster, what string, work func(context.Context) (T, error)) (T, error) {
	if !oteltrace.SpanFromContext(ctx).IsRecording() {
		return work(ctx)
	}
	return asked(ctx, c.tracer, what, []attribute.KeyValue{traces.KafkaSystem(), traces.Operation.String(what)}, work)
}

// read reads records of a partition, from offset on.
func read[T any](
	ctx context.Context, c tracedCluster, how string, tp broker.TopicPartition, offset int64, work func(context.Context) (T, error),
) (T, error) {
	if !oteltrace.SpanFromContext(ctx).IsRecording() {
		return work(ctx)
	}
	return asked(ctx, c.tracer, how+" "+tp.Topic, []attribute.KeyValue{
		traces.KafkaSystem(), traces.Operation.String(how), traces.OperationType.String(typeReceive),
		traces.Topic.String(tp.Topic), traces.Partition(tp.Partition), traces.Offset.Int64(offset),
	}, work)
}

type offsets = map[broker.TopicPartition]int64

func (c tracedCluster) Topics(ctx context.Context, names ...string) ([]broker.Topic, error) {
	return lookUp(ctx, c, lookUpTopics, func(ctx context.Context) ([]broker.Topic, error) { return c.of.Topics(ctx, names...) })
}

func (c tracedCluster) StartOffsets(ctx context.Context, parts []broker.TopicPartition) (map[broker.TopicPartition]int64, error) {
	return lookUp(ctx, c, lookUpOffsets, func(ctx context.Context) (offsets, error) { return c.of.StartOffsets(ctx, parts) })
}

func (c tracedCluster) EndOffsets(ctx context.Context, parts []broker.TopicPartition) (map[broker.TopicPartition]int64, error) {
	return lookUp(ctx, c, lookUpOffsets, func(ctx context.Context) (offsets, error) { return c.of.EndOffsets(ctx, parts) })
}

func (c tracedCluster) AppendedOffsets(ctx context.Context, parts []broker.TopicPartition) (map[broker.TopicPartition]int64, error) {
	return lookUp(ctx, c, lookUpOffsets, func(ctx context.Context) (offsets, error) { return c.of.AppendedOffsets(ctx, parts) })
}

func (c tracedCluster) CommittedOffsets(ctx context.Context, group string, parts []broker.TopicPartition) (map[broker.TopicPartition]int64, error) {
	return lookUp(ctx, c, lookUpOffsets, func(ctx context.Context) (offsets, error) { return c.of.CommittedOffsets(ctx, group, parts) })
}

func (c tracedCluster) GroupStates(ctx context.Context) (map[string]string, error) {
	return lookUp(ctx, c, lookUpGroups, c.of.GroupStates)
}

func (c tracedCluster) ReadAt(ctx context.Context, tp broker.TopicPartition, offset int64) (broker.Record, error) {
	return read(ctx, c, fetch, tp, offset, func(ctx context.Context) (broker.Record, error) { return c.of.ReadAt(ctx, tp, offset) })
}

func (c tracedCluster) Scan(ctx context.Context, tp broker.TopicPartition, from, to int64, header string, fn func(broker.Record) (stop bool)) error {
	_, err := read(ctx, c, scan, tp, from, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, c.of.Scan(ctx, tp, from, to, header, fn)
	})
	return err
}
