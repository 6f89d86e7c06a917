// Package telemetrytest reads metrics in tests.
package telemetrytest

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// Want fails the test unless a counter or gauge has the wanted value.
func Want(t testing.TB, what string, metric prometheus.Collector, want float64) {
	t.Helper()
	if got := testutil.ToFloat64(metric); got != want {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// Observed returns the number and the sum of the values in a histogram.
func Observed(t testing.TB, histogram prometheus.Collector) (count uint64, sum float64) {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(histogram)
	families, err := registry.Gather()
	check.NoError(t, err)
	for _, family := range families {
		for _, m := range family.GetMetric() {
			count += m.GetHistogram().GetSampleCount()
			sum += m.GetHistogram().GetSampleSum()
		}
	}
	return count, sum
}
