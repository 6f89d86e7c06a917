package main

import (
	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/fingerprint"
	"github.com/dlq-manager/dlq-manager/pkg/heartbeat"
	"github.com/dlq-manager/dlq-manager/pkg/notify"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// buildHeart creates the component that sends heartbeats, if Kafka is configured and the configuration names a topic
// for heartbeats.
func (p *parts) buildHeart(store repository.Core) {
	cfg := p.base.Config.Heartbeat
	if cfg.Topic == "" || p.cluster == nil {
		return
	}
	producer := p.cluster.NewProducer(broker.ProducerConfig{})
	p.heart = heartbeat.New(cfg, producer, store, p.base.Registry, p.base.Log)
}

// heartbeats returns the error group and the topic of heartbeat messages, for which no notifications are sent. It
// computes the error group with the same configuration as the ingester. It is also used when this program sends no
// heartbeats, because another program with the same database may send them.
func heartbeats(cfg heartbeat.Config, maker *fingerprint.Fingerprinter) notify.Quiet {
	quiet := notify.Quiet{Groups: []uuid.UUID{maker.Fingerprint(heartbeat.Class, heartbeat.Message, "").ID()}}
	if cfg.Topic != "" {
		quiet.Topics = []string{cfg.Topic}
	}
	return quiet
}
