package republisher

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/traces"
)

// Disabled takes the place of a Republisher when Kafka is not configured. Retries then resolve messages without sending
// them; with RepublishRequired they are refused.
type Disabled struct {
	required bool
	log      *zap.Logger
}

var errNotConfigured = errors.New("kafka is not configured")

// NewDisabled returns the replacement of a Republisher for a program without Kafka.
func NewDisabled(cfg Config, log *zap.Logger) *Disabled {
	return &Disabled{required: cfg.RepublishRequired != nil && *cfg.RepublishRequired, log: log}
}

// Plan accepts every message. With RepublishRequired it refuses every message.
func (d *Disabled) Plan(_ context.Context, batch []entity.Outgoing, _ bool) []entity.Target {
	targets := make([]entity.Target, len(batch))
	for i := range batch {
		targets[i] = entity.Target{Topic: topicOf(&batch[i]), Partition: nowhere, Err: d.refusal()}
	}
	return targets
}

// CheckTarget accepts every topic, because nothing is sent.
func (d *Disabled) CheckTarget(context.Context, string) error { return nil }

func (d *Disabled) refusal() error {
	if !d.required {
		return nil
	}
	return refuse(entity.BrokerUnavailable, "kafka is not configured, and republish_required forbids to resolve without it")
}

// Fetch returns a record only if the message itself contains it.
func (d *Disabled) Fetch(_ context.Context, m entity.Message) (entity.Record, error) {
	if err := valueRefusal(&m); err != nil {
		return entity.Record{}, err
	}
	if _, fetched := sourceOf(&entity.Outgoing{Message: m}); fetched {
		return entity.Record{}, fmt.Errorf("%w: %w", errNotConfigured, entity.ErrUnavailable)
	}
	return m.Record, nil
}

// Publish sends nothing and answers Skipped.
func (d *Disabled) Publish(ctx context.Context, batch []entity.Outgoing) []entity.Delivery {
	d.log.Warn("kafka is not configured: messages are resolved without being published", zap.Int("messages", len(batch)), traces.InLog(ctx))
	deliveries := make([]entity.Delivery, len(batch))
	for i, out := range batch {
		deliveries[i] = entity.Delivery{Verdict: entity.Skipped, Partition: out.Target.Partition, Offset: -1}
	}
	return deliveries
}

// nowhere is the partition number of an attempt that sends nothing.
const nowhere = -1

// neverSent reports whether the claim sent no record. This is so if the claim was made without Kafka, or has no id,
// because an operator set the message's status.
func neverSent(c entity.Claim) bool { return c.ID == uuid.Nil || c.Partition == nowhere }

// FindMany gives back attempts that sent no record. The result of all other claims is InDoubt, so that they wait until
// Kafka is configured again.
func (d *Disabled) FindMany(_ context.Context, claims []entity.Claim) []entity.Delivery {
	findings := make([]entity.Delivery, len(claims))
	for i, c := range claims {
		findings[i] = entity.Delivery{
			Verdict: entity.InDoubt, Class: entity.BrokerUnavailable, Err: errNotConfigured,
			Partition: c.Partition, Offset: -1,
		}
		if neverSent(c) {
			findings[i] = absent(c)
		}
	}
	return findings
}
