package heartbeat

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

const topic = "heartbeat.dlq.v1"

// pipeline replaces Kafka, an ingester and a store: a sent record is in the list after a delay, unless the test makes
// the pipeline lose records. Only one goroutine may use it.
type pipeline struct {
	delay    time.Duration
	swallows bool
	refuses  error
	sent     int
	messages []entity.Message // sent heartbeats as messages; each is in the list from its CreatedAt on
	deleted  map[uuid.UUID]bool
}

func (p *pipeline) Produce(_ context.Context, tp broker.TopicPartition, records []broker.Record) broker.ProduceResult {
	if p.refuses != nil {
		return broker.ProduceResult{Records: []broker.RecordResult{{Err: p.refuses}}}
	}
	p.sent++
	if !p.swallows {
		for _, r := range records {
			p.add(r.Headers[0].Key, string(r.Headers[0].Value), time.Now().Add(p.delay))
		}
	}
	return broker.ProduceResult{Records: []broker.RecordResult{{}}}
}

func (p *pipeline) add(header, value string, at time.Time) uuid.UUID {
	m := entity.Message{ID: uuid.New(), CreatedAt: at, Source: entity.Source{Topic: topic}}
	m.Record.Headers = []entity.Header{{Key: header, Value: []byte(value)}}
	p.messages = append(p.messages, m)
	return m.ID
}

func (p *pipeline) List(_ context.Context, asked string, page repository.Page) (repository.List, error) {
	var list repository.List
	for _, m := range p.messages {
		if asked == topic && !m.CreatedAt.After(time.Now()) && !p.deleted[m.ID] {
			list.Messages = append(list.Messages, m)
		}
	}
	slices.SortFunc(list.Messages, func(a, b entity.Message) int { return b.CreatedAt.Compare(a.CreatedAt) })
	list.Messages = list.Messages[min(len(list.Messages), int(page.Offset())):]
	list.Messages = list.Messages[:min(len(list.Messages), page.Size)]
	return list, nil
}

func (p *pipeline) Delete(_ context.Context, id uuid.UUID, cause entity.AuditInfo) error {
	if cause.Actor == "" {
		return errors.New("no actor")
	}
	p.deleted[id] = true
	return nil
}

// beat runs a Heart on p for a while and returns the number of heartbeats by result.
func beat(p *pipeline, during time.Duration) map[string]float64 {
	p.deleted = map[uuid.UUID]bool{}
	cfg := DefaultConfig()
	cfg.Topic = topic
	h := New(cfg, p, p, prometheus.NewRegistry(), zap.NewNop())
	ctx, cancel := context.WithTimeout(context.Background(), during)
	defer cancel()
	h.Run(ctx)
	got := map[string]float64{}
	for _, result := range []string{fresh, late, lost, unsent} {
		if n := testutil.ToFloat64(h.metrics.results.WithLabelValues(result)); n > 0 {
			got[result] = n
		}
	}
	return got
}

func TestHeart_CountsWhatBecameOfHeartbeats(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		pipeline pipeline
		want     string
		atLeast  float64
		visible  bool
	}{
		{"Fresh", pipeline{delay: time.Second}, fresh, 9, true},
		{"Late", pipeline{delay: 90 * time.Second}, late, 8, true},
		{"Lost", pipeline{swallows: true}, lost, 4, false},
		{"TooLate", pipeline{delay: 6 * time.Minute}, lost, 4, false},
		{"Unsent", pipeline{refuses: errors.New("no broker")}, unsent, 9, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				got := beat(&c.pipeline, 10*time.Minute+30*time.Second)
				if len(got) != 1 || got[c.want] < c.atLeast {
					t.Errorf("got %v, want at least %v of %s alone", got, c.atLeast, c.want)
				}
				if c.visible && float64(len(c.pipeline.deleted)) != got[c.want] {
					t.Errorf("deleted %d, want each of %v", len(c.pipeline.deleted), got)
				}
			})
		})
	}
}

func TestHeart_MeasuresTheDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		p := &pipeline{delay: 7 * time.Second, deleted: map[uuid.UUID]bool{}}
		cfg := DefaultConfig()
		cfg.Topic = topic
		ctx, cancel := context.WithTimeout(context.Background(), 3*cfg.Interval/2)
		defer cancel()
		New(cfg, p, p, registry, zap.NewNop()).Run(ctx)
		families, err := registry.Gather()
		check.NoError(t, err)
		for _, family := range families {
			if family.GetName() != "dlq_heartbeat_delay_seconds" {
				continue
			}
			h := family.GetMetric()[0].GetHistogram()
			if mean := h.GetSampleSum() / float64(h.GetSampleCount()); h.GetSampleCount() == 0 || mean < 7 || mean > 9 {
				t.Errorf("%d heartbeats took %v s on average, want some of 7 s", h.GetSampleCount(), mean)
			}
			return
		}
		t.Error("there is no metric dlq_heartbeat_delay_seconds")
	})
}

// Heartbeats that a killed process left are deleted; other messages, and heartbeats for which another process waits,
// stay.
func TestHeart_DeletesHeartbeatsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &pipeline{delay: time.Second}
		foreign := p.add("kafka_dlt-original-topic", "orders", time.Now().Add(-time.Hour))
		left := p.add(Header, "of a process that was killed", time.Now().Add(-time.Hour))
		awaited := p.add(Header, "of another process", time.Now())
		beat(p, 2*time.Minute+30*time.Second)
		for id, want := range map[uuid.UUID]bool{foreign: false, left: true, awaited: false} {
			if p.deleted[id] != want {
				t.Errorf("deleted: got %t, want %t", p.deleted[id], want)
			}
		}
	})
}

// Any program that may write to a dead-letter topic can claim the heartbeats' topic for its records. They neither push
// heartbeats out of sight, nor are they deleted as heartbeats.
func TestHeart_FindsItsOwnAmongForeignRecords(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &pipeline{delay: 1100 * time.Millisecond}
		foreign := map[uuid.UUID]bool{p.add(Header, "of nobody", time.Now()): true}
		for range 200 { // between a heartbeat and the next query
			foreign[p.add("claims", "the topic", time.Now().Add(DefaultConfig().Interval+p.delay+50*time.Millisecond))] = true
		}
		for i := range p.messages {
			p.messages[i].Source.Topic = "evil.dlq.v1"
		}
		if got := beat(p, 10*time.Minute+30*time.Second); got[fresh] < 9 || got[lost] > 0 || len(got) != 1 {
			t.Errorf("got %v, want all fresh", got)
		}
		for id := range p.deleted {
			if foreign[id] {
				t.Fatal("a foreign record was deleted as a heartbeat")
			}
		}
	})
}

func TestConfig(t *testing.T) {
	t.Parallel()
	if err := DefaultConfig().Validate(); err != nil {
		t.Errorf("the default: got %v, want nil", err)
	}
	for _, bad := range []Config{
		{Interval: time.Millisecond, LostAfter: 5 * time.Minute},
		{Interval: 2 * time.Hour, LostAfter: 5 * time.Minute},
		{Interval: time.Minute, LostAfter: Fresh},
		{Interval: time.Minute, LostAfter: 2 * time.Hour},
	} {
		if bad.Validate() == nil {
			t.Errorf("%+v: got nil, want an error", bad)
		}
	}
}
