package cmd_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/segmentio/kafka-go"

	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// TestMetricsAreWellFormed scrapes running programs like Prometheus, and checks their metrics with the linter of
// "promtool check metrics".
func TestMetricsAreWellFormed(t *testing.T) {
	t.Parallel()
	brokers := strings.Join(stacktest.Kafka(t), ",")
	for program, want := range map[string][]string{
		"api":      {"dlq_http_requests_total", "dlq_redrive_inflight", "dlq_auth_disabled", "dlq_heartbeats_total", "go_sql_in_use_connections"},
		"ingester": {"dlq_ingest_rebalances_total", "dlq_ingest_visibility_delay_seconds", "go_sql_in_use_connections"},
	} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			port := freePort(t)
			group := fmt.Sprintf("metrics-%s-%d", program, port)
			config := file(t, settings(t, postgrestest.URL(t), fmt.Sprintf("{host: 127.0.0.1, port: %d}", port))+
				fmt.Sprintf("kafka: {brokers: [%s], consumer_group: %s, dlq_topic_pattern: \"%s.*\"}\n", brokers, group, group)+
				fmt.Sprintf("heartbeat: {topic: %s.beat}\n", group))
			p := start(t, program, nil, "--config", config)
			base := fmt.Sprintf("http://127.0.0.1:%d", port)
			p.waitForAnswer(base+"/readyz", http.StatusOK, `"ready"`)
			text := scrape(t, base)
			for _, name := range want {
				if !strings.Contains(text, "\n# TYPE "+name+" ") {
					t.Errorf("got no %s", name)
				}
			}
			problems, err := promlint.New(strings.NewReader(text)).Lint()
			check.NoError(t, err)
			for _, problem := range problems {
				// Only metrics of the product are checked, because the names of libraries' metrics cannot be changed
				// here.
				if strings.HasPrefix(problem.Metric, "dlq_") {
					t.Errorf("%s: %s", problem.Metric, problem.Text)
				}
			}
			p.wantCleanEnd()
		})
	}
}

// TestHeartbeatsGoThroughThePipeline: the ingester stores a heartbeat that the API sent; the API
// sees it and then deletes it.
func TestHeartbeatsGoThroughThePipeline(t *testing.T) {
	t.Parallel()
	brokers := stacktest.Kafka(t)
	at, port := postgrestest.URL(t), freePort(t)
	topic := fmt.Sprintf("heartbeat-%d.dlq.v1", port)
	made, err := (&kafka.Client{Addr: kafka.TCP(brokers...)}).CreateTopics(t.Context(), &kafka.CreateTopicsRequest{
		Topics: []kafka.TopicConfig{{Topic: topic, NumPartitions: 1, ReplicationFactor: -1}},
	})
	if err != nil || made.Errors[topic] != nil {
		t.Fatalf("create %s: %v, %v", topic, err, made)
	}
	config := func(port int) string {
		return file(t, settings(t, at, fmt.Sprintf("{host: 127.0.0.1, port: %d}", port))+
			fmt.Sprintf("kafka: {brokers: [%s], consumer_group: %s, dlq_topic_pattern: %s}\n", strings.Join(brokers, ","), topic, topic)+
			fmt.Sprintf("heartbeat: {topic: %s, interval: 1s}\n", topic))
	}
	ingester := start(t, "ingester", nil, "--config", config(freePort(t)))
	api := start(t, "api", nil, "--config", config(port))
	base := fmt.Sprintf("http://127.0.0.1:%d", port)
	api.waitForAnswer(base+"/readyz", http.StatusOK, `"ready"`)
	api.wait("a fresh heartbeat", func() bool {
		text := scrape(t, base)
		return strings.Contains(text, `dlq_heartbeats_total{result="fresh"} `) &&
			!strings.Contains(text, `dlq_heartbeats_total{result="fresh"} 0`)
	})
	api.waitForAnswer(base+"/api/v1/dlq/"+topic, http.StatusOK, `"total_count":0`)
	api.wantCleanEnd()
	ingester.wantCleanEnd()
}

func scrape(t *testing.T, base string) string {
	t.Helper()
	answer, err := http.Get(base + "/metrics")
	check.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	check.NoError(t, err)
	return string(text)
}
