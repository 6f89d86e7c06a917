package main

import (
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dlq-manager/dlq-manager/cmd/internal/program"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
)

// warnUndeclaredAuto logs one warning if automatic retry is on for topics that neither an origin rule nor the topic map
// declares, and otherwise nothing.
func TestAutomaticRetryWithoutDeclarationsIsWarnedOf(t *testing.T) {
	t.Parallel()
	byConvention := []deadletter.OriginRule{{DLQ: "*.dlq.v1", Originals: []string{"$1.events"}}}
	for name, c := range map[string]struct {
		auto     []string
		origins  []deadletter.OriginRule
		mapping  []deadletter.MapRule
		warnings int
	}{
		"Off":               {nil, nil, nil, 0},
		"NothingDeclared":   {[]string{"orders.events"}, nil, nil, 1},
		"OthersDeclared":    {[]string{"orders.commands"}, byConvention, nil, 1},
		"Declared":          {[]string{"orders.events"}, byConvention, nil, 0},
		"DeclaredByMapping": {[]string{"orders.commands"}, nil, []deadletter.MapRule{{Pattern: "x.dlq.v1", Original: "orders.commands"}}, 0},
		"OneOfTwo":          {[]string{"orders.events", "orders.commands"}, byConvention, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			core, logs := observer.New(zap.WarnLevel)
			cfg := program.DefaultConfig()
			cfg.Kafka.Broker.Brokers = []string{"localhost:9092"}
			cfg.Redrive.Auto.Topics, cfg.Kafka.DeadLetter.Origins, cfg.Kafka.DeadLetter.TopicMap = c.auto, c.origins, c.mapping
			warnUndeclaredAuto(cfg, zap.New(core))
			if got := logs.Len(); got != c.warnings {
				t.Errorf("%d warnings, want %d: %v", got, c.warnings, logs.All())
			}
		})
	}
}
