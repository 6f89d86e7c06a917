package telemetry

import (
	"maps"
	"os"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// credentialFiles is a collector that reports, at every scrape, whether files can be read and when they were last
// written. The metrics contain nothing of the files' content.
type credentialFiles struct {
	paths    map[string]string
	readable *prometheus.Desc
	changed  *prometheus.Desc
}

// NewCredentialFiles returns a collector that watches files with credentials. The keys of paths say what the files are
// for; they are the values of the label credentials. For each file, the collector reports whether the file can be read
// and is not empty, and when it was last written. It ignores entries whose path is empty.
func NewCredentialFiles(paths map[string]string) prometheus.Collector {
	paths = maps.Clone(paths)
	maps.DeleteFunc(paths, func(_, path string) bool { return path == "" })
	return &credentialFiles{
		paths: paths,
		readable: prometheus.NewDesc("dlq_credentials_file_readable",
			"1 while a credentials file can be read and is not empty, else 0.", []string{"credentials"}, nil),
		changed: prometheus.NewDesc("dlq_credentials_file_timestamp_seconds",
			"When a credentials file was last written.", []string{"credentials"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *credentialFiles) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.readable
	ch <- c.changed
}

// Collect implements prometheus.Collector.
func (c *credentialFiles) Collect(ch chan<- prometheus.Metric) {
	for _, name := range slices.Sorted(maps.Keys(c.paths)) {
		raw, err := os.ReadFile(c.paths[name])
		well := 0.0
		if err == nil && len(raw) > 0 {
			well = 1
		}
		ch <- prometheus.MustNewConstMetric(c.readable, prometheus.GaugeValue, well, name)
		if info, err := os.Stat(c.paths[name]); err == nil {
			ch <- prometheus.MustNewConstMetric(c.changed, prometheus.GaugeValue, float64(info.ModTime().UnixMilli())/1000, name)
		}
	}
}
