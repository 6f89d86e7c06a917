package main

import (
	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/fingerprint"
	"github.com/dlq-manager/dlq-manager/pkg/heartbeat"
	"github.com/dlq-manager/dlq-manager/pkg/notify"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// buildHeart prepares heartbeats where a topic is configured for them.
func (p *parts) buildHeart(store repository.Core) {
	cfg := p.base.Config.Heartbeat
	if cfg.Topic == "" || p.cluster == nil {
		return
	}
	producer := p.cluster.NewProducer(broker.ProducerConfig{})
	p.heart = heartbeat.New(cfg, producer, store, p.base.Registry, p.base.Log)
}

// heartbeats are the error group of heartbeats, as the ingester names it by the same
// configuration, and their topic: no notification is about them. Another program may
// send some although this one sends none.
func heartbeats(cfg heartbeat.Config, maker *fingerprint.Maker) notify.Quiet {
	quiet := notify.Quiet{Groups: []uuid.UUID{maker.Of(heartbeat.Class, heartbeat.Message, "").ID()}}
	if cfg.Topic != "" {
		quiet.Topics = []string{cfg.Topic}
	}
	return quiet
}
