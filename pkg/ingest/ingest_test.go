package ingest

import (
	"strings"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

func TestMain(m *testing.M) { stacktest.Main(m) }

func TestConfigValidate(t *testing.T) {
	t.Parallel()
	check.Equal(t, DefaultConfig().Validate(), nil, "DefaultConfig().Validate()")
	tests := map[string]func(*Config){
		"max_retries":        func(c *Config) { c.MaxRetries = -1 },
		"max_record_bytes":   func(c *Config) { c.MaxRecordBytes = 0 },
		"payload":            func(c *Config) { c.Payload = "later" },
		"payload_max_bytes":  func(c *Config) { c.PayloadMaxBytes = 2 << 20 },
		"discovery_interval": func(c *Config) { c.DiscoveryInterval = time.Minute },
		"session_timeout":    func(c *Config) { c.SessionTimeout = 0 },
		"buffer_bytes":       func(c *Config) { c.BufferBytes = 1 },
		"writers":            func(c *Config) { c.Writers = 0 },
		"return_window":      func(c *Config) { c.ReturnWindow = 721 * time.Hour },
	}
	all := DefaultConfig()
	for key, spoil := range tests {
		t.Run(key, func(t *testing.T) {
			cfg := DefaultConfig()
			spoil(&cfg)
			err := cfg.Validate()
			check.True(t, err != nil && strings.Contains(err.Error(),
				"ingest."+key), "Validate = %v, want it to name ingest.%s", err, key)
		})
		spoil(&all)
	}
	for key := range tests {
		if err := all.Validate(); err == nil || !strings.Contains(err.Error(), "ingest."+key) {
			t.Errorf("Validate of all mistakes = %v, want it to name ingest.%s", err, key)
		}
	}
}

func TestBackoffGrowsAndIsBounded(t *testing.T) {
	t.Parallel()
	for attempt, want := range map[int]time.Duration{0: 100 * time.Millisecond, 3: 800 * time.Millisecond, 6: 5 * time.Second, 1 << 40: 5 * time.Second} {
		check.Equal(t, backoff(attempt), want, "backoff(%d)", attempt)
	}
}

func TestHealthTellsUsesApart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.i.health.Set(consumerGroupHealth, errDown)
	w.i.health.Set(topicsHealth, nil)
	check.True(t, w.i.CheckKafka() != nil, "CheckKafka = nil, want the group's error although topics can be listed")
	check.Equal(t, w.i.CheckDatabase(), nil, "CheckDatabase")
}

// noGroups is a ShareGroups that does not know any share group yet.
type noGroups struct{}

func (noGroups) IsRead(string) bool        { return false }
func (noGroups) Answered() <-chan struct{} { return nil }

// TestShareRecords: the dead letter of a share group is marked to be completed if it names the position of its record,
// even if the share group is not known when the dead letter arrives.
func TestShareRecords(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	WithShareGroups(noGroups{})(w.i)
	names := func(topic, partition string) entity.Record {
		var headers []entity.Header
		for _, h := range [][2]string{{"topic", topic}, {"partition", partition}, {"offset", "7"}, {"group", "g"}, {"message", "rejected"}} {
			headers = append(headers, entity.Header{Key: "__dlq.errors." + h[0], Value: []byte(h[1])})
		}
		return entity.Record{Headers: headers}
	}
	for what, tt := range map[string]struct {
		record entity.Record
		want   bool
	}{
		"a share group's":    {names("orders", "1"), true},
		"without a position": {names("orders", "none"), false},
		"another dialect's":  {entity.Record{Headers: []entity.Header{{Key: "original_topic", Value: []byte("orders")}}}, false},
	} {
		m := w.i.decoded(w.i.decoder.Load(), entity.Source{Topic: "orders.dlq.v1"}, tt.record)
		check.Equal(t, m.Share != nil, tt.want, "the dead letter is to be completed: "+what)
	}
}
