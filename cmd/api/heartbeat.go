package main

import (
	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/heartbeat"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// buildHeart prepares heartbeats where a topic is configured for them.
func (p *parts) buildHeart(store repository.Repository) {
	cfg := p.base.Config.Heartbeat
	if cfg.Topic == "" || p.cluster == nil {
		return
	}
	producer := p.cluster.NewProducer(broker.ProducerConfig{})
	p.heart = heartbeat.New(cfg, producer, store, p.base.Registry, p.base.Log)
}
