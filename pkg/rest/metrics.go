package rest

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// unmatched is the label of requests to unknown paths. Clients can invent any number of paths, which would otherwise
// become any number of labels.
const unmatched = "unmatched"

type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	inFlight prometheus.Gauge
	gatherer prometheus.Gatherer
}

func newMetrics(registry *prometheus.Registry) *metrics {
	m := &metrics{
		gatherer: registry,
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dlq_http_requests_total",
			Help: "HTTP requests answered, by method, route template and status code.",
		}, []string{"method", "route", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "dlq_http_request_duration_seconds",
			Help:    "Time from a request's head to the end of its answer.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .3, .5, 1, 2.5, 5, 10, 30, 120},
		}, []string{"method", "route"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "dlq_http_requests_in_flight",
			Help: "HTTP requests in progress.",
		}),
	}
	registry.MustRegister(m.requests, m.duration, m.inFlight)
	return m
}

func (m *metrics) observe(method string, x *exchange, took time.Duration) {
	method = knownMethod(method)
	m.requests.WithLabelValues(method, x.route, strconv.Itoa(x.status)).Inc()
	duration := m.duration.WithLabelValues(method, x.route)
	if at := x.spanContext(); at.IsSampled() {
		if o, can := duration.(prometheus.ExemplarObserver); can {
			o.ObserveWithExemplar(took.Seconds(), prometheus.Labels{"trace_id": at.TraceID().String()})
			return
		}
	}
	duration.Observe(took.Seconds())
}

// knownMethod returns the method of a request as a label. All methods that no route has, except OPTIONS, become one
// label, because clients can invent methods.
func knownMethod(method string) string {
	if slices.Contains(knownMethods, method) || method == http.MethodOptions {
		return method
	}
	return "other"
}

// expose answers with all metrics.
func (m *metrics) expose(w http.ResponseWriter, r *http.Request) error {
	promhttp.HandlerFor(m.gatherer, promhttp.HandlerOpts{
		ErrorHandling:     promhttp.ContinueOnError,
		EnableOpenMetrics: true, // the older text format cannot contain exemplars
	}).ServeHTTP(w, r)
	return nil
}
