package notify

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

type metrics struct {
	names   []string // names of the configured sinks
	tries   *prometheus.CounterVec
	givenUp *prometheus.CounterVec
	waiting *prometheus.GaugeVec
	overdue *prometheus.GaugeVec
}

// newMetrics sets the counters of every sink to zero, so that the first failure of a sink is visible as an increase.
func newMetrics(registry prometheus.Registerer, names []string) *metrics {
	build := promauto.With(registry)
	m := &metrics{
		names: names,
		tries: build.NewCounterVec(prometheus.CounterOpts{
			Name: "dlq_notification_attempts_total",
			Help: "Notifications that this process tried to send, by sink and result: sent or failed.",
		}, []string{"sink", "result"}),
		givenUp: build.NewCounterVec(prometheus.CounterOpts{
			Name: "dlq_notifications_given_up_total",
			Help: "Notifications that were dropped because no receiver accepted them in time.",
		}, []string{"sink"}),
		waiting: build.NewGaugeVec(prometheus.GaugeOpts{
			Name: "dlq_notifications_waiting",
			Help: "Notifications that are not sent yet, including those that still collect events.",
		}, []string{"sink"}),
		overdue: build.NewGaugeVec(prometheus.GaugeOpts{
			Name: "dlq_notification_oldest_waiting_seconds",
			Help: "Age of the oldest due notification that is not sent.",
		}, []string{"sink"}),
	}
	for _, name := range names {
		m.tries.WithLabelValues(name, "sent")
		m.tries.WithLabelValues(name, "failed")
		m.givenUp.WithLabelValues(name)
	}
	m.wait(nil)
	return m
}

// wait sets the metrics of waiting notifications, including those of sinks that are no longer configured.
func (m *metrics) wait(all []repository.WaitingNotifications) {
	waiting := map[string]repository.WaitingNotifications{}
	for _, w := range all {
		waiting[w.Sink] = w
		if !slices.Contains(m.names, w.Sink) {
			m.names = append(m.names, w.Sink)
		}
	}
	for _, name := range m.names {
		m.waiting.WithLabelValues(name).Set(float64(waiting[name].Notifications))
		m.overdue.WithLabelValues(name).Set(waiting[name].Overdue.Seconds())
	}
}
