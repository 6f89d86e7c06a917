// Package heartbeat measures how long a new dead letter takes to become visible to users. It sends its own record to
// a dead-letter topic, as a failing consumer does, waits until the message is in the list, and deletes it. The
// ingester processes the record like any other.
package heartbeat

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Fresh is the time within which a record should be visible.
const Fresh = time.Minute

// Header marks a record as a heartbeat; its value is the heartbeat's id. Package heartbeat deletes only messages with
// this header.
const Header = "dlq-heartbeat"

// Error class and message of a heartbeat. Class and message give heartbeats their own error group, for which no
// notification is sent.
const (
	Class   = "dlqmanager.Heartbeat"
	Message = "A heartbeat of dlq-manager, which measures how fresh the list is"
)

// The names of the headers for class and message. These headers belong to the generic dialect, so every decoder reads
// them.
const (
	classHeader   = "error-class"
	messageHeader = "error-message"
)

const (
	// lookEvery is the time between two queries for visible heartbeats, and thus the precision of the measured delay.
	lookEvery = 250 * time.Millisecond
	// callTimeout limits each send of a record, and all calls of the store in one call of look together.
	callTimeout = 10 * time.Second
	// pageSize is the number of messages that one query reads. The key, value and headers of so many always fit into
	// repository.ListPageLimit, so the headers of all of them are loaded.
	pageSize = 50
)

// Producer writes records; see broker.Producer.
type Producer interface {
	Produce(ctx context.Context, tp broker.TopicPartition, records []broker.Record) broker.ProduceResult
}

// Store is the part of a repository that heartbeats use. Its methods behave as in repository.Repository.
type Store interface {
	List(ctx context.Context, topic string, page repository.Page) (repository.List, error)
	Delete(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) error
}

// Heart sends heartbeats. Any number of Hearts may use the same topic.
type Heart struct {
	cfg      Config
	producer Producer
	store    Store
	metrics  *metrics
	log      *zap.Logger

	underWay map[string]time.Time // time at which each heartbeat that is not visible yet was sent, by the heartbeat's id
}

// New returns a Heart; the configuration must be valid and name a topic.
func New(cfg Config, producer Producer, store Store, registry prometheus.Registerer, log *zap.Logger) *Heart {
	return &Heart{
		cfg: cfg, producer: producer, store: store, metrics: newMetrics(registry), log: log,
		underWay: map[string]time.Time{},
	}
}

// Run sends heartbeats and measures their delays until ctx ends. Run goes on after a failure, and counts the heartbeats
// that were not sent or were lost.
func (h *Heart) Run(ctx context.Context) {
	sends := time.NewTicker(h.cfg.Interval)
	defer sends.Stop()
	looks := time.NewTicker(lookEvery)
	defer looks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-sends.C:
			h.send(ctx)
		case <-looks.C:
			if len(h.underWay) > 0 {
				h.look(ctx)
			}
		}
	}
}

func (h *Heart) send(ctx context.Context) {
	id, now := uuid.NewString(), time.Now()
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := h.producer.Produce(bounded, broker.TopicPartition{Topic: h.cfg.Topic}, []broker.Record{{
		Time:  now,
		Key:   []byte(id),
		Value: fmt.Appendf(nil, `{"heartbeat":%q}`, id),
		Headers: []entity.Header{
			{Key: Header, Value: []byte(id)},
			{Key: classHeader, Value: []byte(Class)},
			{Key: messageHeader, Value: []byte(Message)},
		},
	}}).Err()
	switch {
	case ctx.Err() != nil:
	case err != nil:
		h.metrics.count(unsent)
		h.log.Warn("a heartbeat was not sent", zap.String("topic", h.cfg.Topic), zap.Error(err))
	default:
		h.underWay[id] = now
	}
}

// look deletes the heartbeats that have reached the store. It counts a heartbeat as lost that is still missing there
// after Config.LostAfter. Records of other dead-letter topics that claim the heartbeats' topic are in the list too, so
// look reads page after page, until it has met all heartbeats that it waits for, or the messages are older than these.
func (h *Heart) look(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	now := time.Now()
	for number := 1; ; number++ {
		list, err := h.store.List(bounded, h.cfg.Topic, repository.Page{Number: number, Size: pageSize})
		if err != nil {
			h.log.Debug("cannot list heartbeats", zap.Error(err))
		}
		for n := range list.Messages {
			h.meet(bounded, &list.Messages[n], now)
		}
		const skew = time.Minute // between the clocks of this process and of the store
		last := len(list.Messages) - 1
		if len(h.underWay) == 0 || last < pageSize-1 || list.Messages[last].CreatedAt.Before(now.Add(-h.cfg.LostAfter-skew)) {
			break
		}
	}
	now = time.Now()
	for id, sent := range h.underWay {
		if now.Sub(sent) > h.cfg.LostAfter {
			delete(h.underWay, id)
			h.metrics.count(lost)
			h.log.Warn("a heartbeat was not visible in time", zap.String("id", id), zap.Time("sent", sent))
		}
	}
}

// meet deletes a heartbeat of this process. It also deletes a heartbeat for which no process waits any more, because
// its process was killed or it became visible too late.
func (h *Heart) meet(ctx context.Context, m *entity.Message, now time.Time) {
	id := idOf(m)
	sent, ours := h.underWay[id]
	switch {
	case id == "" || m.Source.Topic != h.cfg.Topic:
		return
	case ours:
		delete(h.underWay, id)
		h.metrics.seen(now.Sub(sent), now)
	case now.Sub(m.CreatedAt) < h.cfg.LostAfter:
		return // another process may still wait for this heartbeat
	}
	if err := h.store.Delete(ctx, m.ID, entity.By(entity.ActorHeartbeat)); err != nil {
		h.log.Debug("cannot delete a heartbeat now", zap.Stringer("message_id", m.ID), zap.Error(err))
	}
}

func idOf(m *entity.Message) string {
	for _, header := range m.Record.Headers {
		if header.Key == Header {
			return string(header.Value)
		}
	}
	return ""
}
