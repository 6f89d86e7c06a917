package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// NewRegistry returns a new registry with the metrics of the Go runtime and the process, go_build_info, and
// dlq_build_info; the value of the last one is always 1, and its labels are the result of ReadBuild and the deployment.
func NewRegistry(d Deployment) *prometheus.Registry {
	b := ReadBuild()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "dlq_build_info",
		Help: "Always 1; the labels say which build is running, and in which deployment.",
		ConstLabels: prometheus.Labels{
			"version": b.Version, "revision": b.Revision, "goversion": b.GoVersion,
			"app": d.Name, "app_version": d.Version, "tier": d.Tier,
		},
	})
	info.Set(1)

	reg := prometheus.NewRegistry()
	reg.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewBuildInfoCollector(),
		info,
	)
	return reg
}
