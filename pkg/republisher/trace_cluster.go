package republisher

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/traces"
)

// Operations of spans.
const (
	lookUpTopics  = "look up topics"
	lookUpOffsets = "look up offsets"
	lookUpGroups  = "look up groups"
	fetch         = "fetch"
	scan          = "scan"

	typeReceive = "receive"
)

// tracedCluster makes a span of every request to the cluster within a recorded span.
// Other requests have none: topics and groups are looked up all the time.
type tracedCluster struct {
	of     Cluster
	tracer oteltrace.Tracer
}

// traced returns the answer to a request. at is nil for what is not about one partition.
func traced[T any](
	ctx context.Context, c tracedCluster, operation string, at *broker.TopicPartition, offset int64, request func(context.Context) (T, error),
) (T, error) {
	if !oteltrace.SpanFromContext(ctx).IsRecording() {
		return request(ctx)
	}
	name, attributes := operation, []attribute.KeyValue{traces.KafkaSystem(), traces.Operation.String(operation)}
	if at != nil {
		name += " " + at.Topic
		attributes = append(attributes, traces.OperationType.String(typeReceive),
			traces.Topic.String(at.Topic), traces.Partition(at.Partition), traces.Offset.Int64(offset))
	}
	ctx, span := traces.Start(ctx, c.tracer, name, oteltrace.WithSpanKind(oteltrace.SpanKindClient), oteltrace.WithAttributes(attributes...))
	defer span.End()
	answer, err := request(ctx)
	if err != nil {
		span.SetStatus(codes.Error, "")
		span.SetAttributes(traces.ErrorType.String(string(classOf(err))))
	}
	return answer, err
}

type offsets = map[broker.TopicPartition]int64

func (c tracedCluster) Topics(ctx context.Context, names ...string) ([]broker.Topic, error) {
	return traced(ctx, c, lookUpTopics, nil, 0, func(ctx context.Context) ([]broker.Topic, error) { return c.of.Topics(ctx, names...) })
}

func (c tracedCluster) StartOffsets(ctx context.Context, parts []broker.TopicPartition) (offsets, error) {
	return traced(ctx, c, lookUpOffsets, nil, 0, func(ctx context.Context) (offsets, error) { return c.of.StartOffsets(ctx, parts) })
}

func (c tracedCluster) EndOffsets(ctx context.Context, parts []broker.TopicPartition) (offsets, error) {
	return traced(ctx, c, lookUpOffsets, nil, 0, func(ctx context.Context) (offsets, error) { return c.of.EndOffsets(ctx, parts) })
}

func (c tracedCluster) AppendedOffsets(ctx context.Context, parts []broker.TopicPartition) (offsets, error) {
	return traced(ctx, c, lookUpOffsets, nil, 0, func(ctx context.Context) (offsets, error) { return c.of.AppendedOffsets(ctx, parts) })
}

func (c tracedCluster) CommittedOffsets(ctx context.Context, group string, parts []broker.TopicPartition) (offsets, error) {
	return traced(ctx, c, lookUpOffsets, nil, 0, func(ctx context.Context) (offsets, error) { return c.of.CommittedOffsets(ctx, group, parts) })
}

func (c tracedCluster) GroupStates(ctx context.Context) (map[string]string, error) {
	return traced(ctx, c, lookUpGroups, nil, 0, c.of.GroupStates)
}

func (c tracedCluster) ReadAt(ctx context.Context, tp broker.TopicPartition, offset int64) (broker.Record, error) {
	return traced(ctx, c, fetch, &tp, offset, func(ctx context.Context) (broker.Record, error) { return c.of.ReadAt(ctx, tp, offset) })
}

func (c tracedCluster) Scan(ctx context.Context, tp broker.TopicPartition, from, to int64, header string, fn func(broker.Record) (stop bool)) error {
	_, err := traced(ctx, c, scan, &tp, from, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, c.of.Scan(ctx, tp, from, to, header, fn)
	})
	return err
}
