package main

import (
	"context"

	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/cmd/internal/program"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// newJudge returns the Judge that decides whether the original topic of a message is a declared origin. The Judge asks
// the configuration, the share groups and the operators' mapping.
func newJudge(
	cfg program.Config, decoder *deadletter.Decoder, declaration func(dlqTopic, original string) entity.Declaration,
	mapping func(context.Context) (entity.Mapping, error),
) (*deadletter.Judge, error) {
	settings := deadletter.DefaultConfig()
	if cfg.Kafka != nil {
		settings = cfg.Kafka.DeadLetter
	}
	origins, err := deadletter.NewOrigins(settings)
	if err != nil {
		return nil, err
	}
	return deadletter.NewJudge(decoder, origins.Or(declaration), mapping), nil
}

// noMapping returns an empty mapping, for a store that cannot keep a mapping.
func noMapping(context.Context) (entity.Mapping, error) { return entity.Mapping{}, nil }

// warnUndeclaredAuto logs a warning about the topics for which automatic retry is configured, but which no
// configuration declares as original topics. Automatic retry then sends only those of their messages whose original
// topic a mapping, an operator or a share group declares.
func warnUndeclaredAuto(cfg program.Config, log *zap.Logger) {
	if !cfg.HasKafka() {
		return
	}
	var topics []string
	for _, topic := range cfg.Redrive.Auto.Topics {
		if !deadletter.MayDeclare(cfg.Kafka.DeadLetter, topic) {
			topics = append(topics, topic)
		}
	}
	if len(topics) > 0 {
		log.Warn("automatic retry is on for topics that neither kafka.origins nor kafka.topic_map declares: it retries none of their "+
			"messages but those whose original topic a mapping or an operator set; declare them in kafka.origins",
			zap.Strings("topics", topics))
	}
}
