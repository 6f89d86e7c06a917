package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/cmd/internal/program"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/fingerprint"
	"github.com/dlq-manager/dlq-manager/pkg/heartbeat"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// recorder stores the produced records.
type recorder struct{ records []broker.Record }

func (r *recorder) Produce(_ context.Context, _ broker.TopicPartition, records []broker.Record) broker.ProduceResult {
	r.records = append(r.records, records...)
	return broker.ProduceResult{Records: []broker.RecordResult{{}}}
}

// The ingester assigns heartbeat records to the error group that notifications leave out. It assigns a record without
// an error text to another error group, so that notifications report that record.
func TestHeartbeatsAreAGroupOfTheirOwn(t *testing.T) {
	t.Parallel()
	decoder, err := (&parts{base: program.Base{Config: program.DefaultConfig()}}).decoder()
	check.NoError(t, err)
	maker, err := fingerprint.New(fingerprint.DefaultConfig())
	check.NoError(t, err)
	cfg := heartbeat.DefaultConfig()
	cfg.Topic = "beat.dlq.v1"
	quiet := heartbeats(cfg, maker)
	produced := &recorder{}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		defer cancel()
		heartbeat.New(cfg, produced, emptyList{}, prometheus.NewRegistry(), zap.NewNop()).Run(ctx)
	})
	if len(produced.records) != 1 {
		t.Fatalf("got %d records, want one", len(produced.records))
	}
	sent := entity.Record{Value: produced.records[0].Value, Headers: produced.records[0].Headers}
	read := decoder.Decode(cfg.Topic, sent, time.Now(), nil)
	if got := maker.Fingerprint(read.Failure.Class, read.ErrorMessage, read.Failure.StackTrace).ID(); got != quiet.Groups[0] || read.OriginalTopic != "" {
		t.Errorf("heartbeat has original topic %q and error group %s (%q, %q), want no topic and group %s", read.OriginalTopic, got,
			read.Failure.Class, read.ErrorMessage, quiet.Groups[0])
	}
	if got := maker.Fingerprint("", entity.UnknownError, "").ID(); got == quiet.Groups[0] {
		t.Error("a message without error text is in the error group of heartbeats")
	}
}

// emptyList is a store whose lists are empty, so that no heartbeat ever becomes visible.
type emptyList struct{ heartbeat.Store }

func (emptyList) List(context.Context, string, repository.Page) (repository.List, error) {
	return repository.List{}, nil
}
