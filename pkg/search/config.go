package search

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/dlq-manager/dlq-manager/pkg/opensearch"
)

// Config says how much of each record is indexed, and how often the worker polls for messages. After a change of
// PayloadBytes the worker indexes all messages again.
type Config struct {
	PayloadBytes int64         `mapstructure:"payload_bytes"` // maximum bytes of each record's text that free-text searches cover
	Batch        int           `mapstructure:"batch"`         // maximum number of messages that the worker indexes together
	Interval     time.Duration `mapstructure:"interval"`      // shortest pause without new messages; pauses double up to two seconds

	Engine     string            `mapstructure:"engine"` // EnginePostgres or EngineOpenSearch
	OpenSearch opensearch.Config `mapstructure:"opensearch"`
}

// Values of Engine: which program has the search index.
const (
	EnginePostgres   = "postgres"
	EngineOpenSearch = "opensearch"
)

// DefaultConfig indexes 4 KiB of the text of each record, and begins with pauses of half a second between polls.
func DefaultConfig() Config {
	return Config{
		PayloadBytes: 4 << 10, Batch: 500, Interval: 500 * time.Millisecond, Engine: EnginePostgres, OpenSearch: opensearch.DefaultConfig(),
	}
}

// Validate reports every problem at once. When PayloadBytes is 0, free-text searches cover only error messages.
func (c Config) Validate() error {
	var errs []error
	if c.PayloadBytes < 0 || c.PayloadBytes > maxValue {
		errs = append(errs, fmt.Errorf("search.payload_bytes must be 0 to 1MiB, not %d", c.PayloadBytes))
	}
	if c.Batch < 1 || c.Batch > 10_000 {
		errs = append(errs, fmt.Errorf("search.batch must be 1 to 10000, not %d", c.Batch))
	}
	if c.Interval < 10*time.Millisecond || c.Interval > time.Minute {
		errs = append(errs, fmt.Errorf("search.interval must be 10ms to 1m, not %s", c.Interval))
	}
	switch {
	case c.Engine != EnginePostgres && c.Engine != EngineOpenSearch:
		errs = append(errs, fmt.Errorf("search.engine must be %s or %s, not %q", EnginePostgres, EngineOpenSearch, c.Engine))
	case c.Engine == EngineOpenSearch && len(c.OpenSearch.URL) == 0:
		errs = append(errs, errors.New("search.opensearch.url: search.engine is opensearch, so an address is needed"))
	}
	return errors.Join(append(errs, c.OpenSearch.Validate())...)
}

type metrics struct {
	documents prometheus.Counter
	lag       prometheus.Gauge
	markAge   prometheus.Gauge
	undecoded prometheus.Gauge
}

func newMetrics(registry prometheus.Registerer) *metrics {
	build := promauto.With(registry)
	return &metrics{
		documents: build.NewCounter(prometheus.CounterOpts{
			Name: "dlq_catalogue_documents_total",
			Help: "Messages that this process indexed for search; a message that is indexed again counts again.",
		}),
		lag: build.NewGauge(prometheus.GaugeOpts{
			Name: "dlq_catalogue_lag_seconds",
			Help: "Age of the oldest message that is not indexed for search yet; 0 when there is none, and in processes without the indexer lease.",
		}),
		markAge: build.NewGauge(prometheus.GaugeOpts{
			Name: "dlq_catalogue_mark_age_seconds",
			Help: "How long an open database transaction has delayed the search index; 0 when none does.",
		}),
		undecoded: build.NewGauge(prometheus.GaugeOpts{
			Name: "dlq_search_undecoded_messages",
			Help: "Messages whose payload or key cannot be searched, because their schema could not be read; 0 in processes without the indexer lease.",
		}),
	}
}
