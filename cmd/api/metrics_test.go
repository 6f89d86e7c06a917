package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.yaml.in/yaml/v3"

	"github.com/dlq-manager/dlq-manager/cmd/internal/program"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/archive"
	"github.com/dlq-manager/dlq-manager/pkg/archive/tier"
	"github.com/dlq-manager/dlq-manager/pkg/completion"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/ingest"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres"
	"github.com/dlq-manager/dlq-manager/pkg/search"
	"github.com/dlq-manager/dlq-manager/pkg/telemetry"
)

const monitoring = "../../deploy/k8s/components/monitoring/"

// Every metric and label that the alert rules and the dashboard use is exported by this program or by the ingester, or
// comes from Kubernetes or Prometheus. Every metric dlq_* of these programs is used there, or listed in unwatched. An
// alert on a metric that does not exist would never fire.
func TestMetrics_WhatIsWatchedExists(t *testing.T) {
	t.Parallel()
	known := series(t)
	expressions, recorded := watched(t)
	if len(expressions) < 100 {
		t.Fatalf("found %d expressions, want those of the rules and of the dashboard", len(expressions))
	}
	used := map[string]bool{}
	for _, expression := range expressions {
		for _, asked := range selectors(expression) {
			used[asked.name] = true
			labels, ok := known[asked.name]
			if !ok {
				labels, ok = known[withoutSuffix(asked.name)]
			}
			if !ok && !recorded[asked.name] && !strings.HasPrefix(asked.name, "kube_") && asked.name != "ALERTS" {
				t.Errorf("nothing has the metric %s: %s", asked.name, expression)
			}
			for _, label := range asked.labels {
				if ok && !slices.Contains(labels, label) && !slices.Contains(fromScraping, label) {
					t.Errorf("%s has no label %s: %s", asked.name, label, expression)
				}
			}
		}
	}
	for name := range known {
		if _, isNew := unwatched[name]; strings.HasPrefix(name, "dlq_") && !used[name] &&
			!used[name+"_bucket"] && !used[name+"_count"] && !isNew {
			t.Errorf("no rule and no panel uses the metric %s", name)
		}
	}
}

// Prometheus chooses between two metric formats: one format writes the bound of a bucket, and the quantile of a
// summary, as 5, and the other format as 5.0. So rules must use only bounds that both formats write in the same way.
func TestMetrics_BucketsAreNamedAlikeInBothFormats(t *testing.T) {
	t.Parallel()
	expressions, _ := watched(t)
	for _, expression := range expressions {
		if bound := oneFormat(t, expression); bound != "" {
			t.Errorf("%s is not the same in both formats: %s", bound, expression)
		}
	}
}

// TestOneFormat: oneFormat reports an expression only if it matches a whole number in one of the two formats, 5 or 5.0,
// and not in the other.
func TestOneFormat(t *testing.T) {
	t.Parallel()
	for expression, wrong := range map[string]bool{
		`a{le="5"}`: true, `a{le="5.0"}`: true, `a{le=~"0.3|5"}`: true, `a{le != "10"}`: true, `a{le!~"5.0"}`: true,
		`a{quantile="0"}`: true, `a{quantile="1"}`: true, `a{le=~"1|1\\.0"}`: false, `a{le=~"[0-9]"}`: true,
		`a{le="0.3"}`: false, `a{quantile="0.5"}`: false, `a{le="+Inf"}`: false, `a{title="5"}`: false, `a{le=~"5(\\.0)?"}`: false, `a{le=~".+"}`: false,
	} {
		if got := oneFormat(t, expression); (got != "") != wrong {
			t.Errorf("%s: got %q, want it reported: %t", expression, got, wrong)
		}
	}
}

var bound = regexp.MustCompile(`\b(?:le|quantile)\s*(=~|!~|!=|=)\s*("(?:[^"\\]|\\.)*")`)

// oneFormat returns the first matcher in an expression that accepts a whole number below 1,000 in only one of the two
// ways to write it, 5 or 5.0. It returns "" when there is no such matcher.
func oneFormat(t *testing.T, expression string) string {
	t.Helper()
	for _, m := range bound.FindAllStringSubmatch(expression, -1) {
		text, err := strconv.Unquote(m[2])
		check.Require(t, err == nil, "%s in %s: %v", m[2], expression, err)
		if m[1] == "=" || m[1] == "!=" {
			text = regexp.QuoteMeta(text)
		}
		takes := regexp.MustCompile("^(?:" + text + ")$")
		for n := range 1000 {
			if whole := strconv.Itoa(n); takes.MatchString(whole) != takes.MatchString(whole+".0") {
				return m[0]
			}
		}
	}
	return ""
}

// fromScraping are labels that no metric declares: Prometheus adds them, and every histogram has le.
var fromScraping = []string{"namespace", "pod", "instance", "job", "le"}

// unwatched are the metrics that are deliberately used by no alert rule and by no panel of the dashboard, each with the
// reason.
var unwatched = map[string]string{
	"dlq_heartbeat_last_seen_timestamp_seconds":  "for alerts that users define themselves",
	"dlq_quarantined_total":                      "the alert uses dlq_quarantine_records, the number in quarantine now",
	"dlq_archive_objects":                        "for the bill of the object store",
	"dlq_archive_object_messages":                "for the bill of the object store",
	"dlq_archive_object_bytes":                   "for the bill of the object store",
	"dlq_search_engine_changes":                  "the runbook shows it; dlq_catalogue_lag_seconds is watched",
	"dlq_search_engine_serves":                   "0 while OpenSearch is filled, which is normal; docs/search.md says so",
	"dlq_search_engine_repaired_documents_total": "repaired without an operator, and logged",
}

// series returns the labels of every metric that the programs export, by the name of the metric.
func series(t *testing.T) map[string][]string {
	t.Helper()
	base := program.Base{Config: program.DefaultConfig(), Log: zap.NewNop(), Registry: telemetry.NewRegistry(telemetry.Deployment{})}
	database := postgres.DefaultConfig()
	database.Host, database.Name, database.User, database.ReadHost = "127.0.0.1", "nobody", "nobody", "127.0.0.2"
	base.Config.Database = &database
	base.Config.Kafka.Broker.Brokers = []string{"127.0.0.1:1"}
	base.Config.Heartbeat.Topic = "heartbeat.dlq.v1"
	base.Config.Archive.Store = archive.InS3
	base.Config.Archive.S3 = tier.Config{Endpoint: "http://127.0.0.1:1", Bucket: "archive"}
	base.Config.Search.Engine = search.EngineOpenSearch
	base.Config.Search.OpenSearch.URL = []string{"http://127.0.0.1:1"}
	base.Registry.MustRegister(telemetry.NewCredentialFiles(nil))
	base.Config.Tracing.Endpoint = "http://127.0.0.1:4318"
	base, err := base.WithTracing(t.Context(), "api")
	check.NoError(t, err)
	t.Cleanup(base.StopTracing)
	parts, err := build(base)
	check.NoError(t, err)
	t.Cleanup(parts.close)

	ingester := prometheus.NewRegistry()
	ingest.New(base.Config.Ingest, "g", deadletter.Patterns{}, parts.cluster, nil, ingest.Stores{}, ingester, base.Log)
	completion.New(nil, nil, nil, nil, 0, ingester, base.Log)

	known := map[string][]string{}
	for _, registry := range []*prometheus.Registry{base.Registry, ingester} {
		descriptions := make(chan *prometheus.Desc)
		go func() {
			defer close(descriptions)
			registry.Describe(descriptions)
		}()
		for d := range descriptions {
			parsed := description.FindStringSubmatch(d.String())
			if parsed == nil {
				t.Fatalf("cannot read %s", d)
			}
			var labels []string
			for _, label := range constant.FindAllStringSubmatch(parsed[2], -1) {
				labels = append(labels, label[1])
			}
			known[parsed[1]] = append(labels, strings.Split(parsed[3], ",")...)
		}
	}
	return known
}

var (
	description = regexp.MustCompile(`fqName: "([^"]+)".*constLabels: \{(.*)\}, variableLabels: \{([^}]*)\}`)
	constant    = regexp.MustCompile(`(\w+)="`)
)

// watched returns all expressions in the rules and on the dashboard, and the names of the metrics that recording rules
// create. It also checks that each panel has a title, a description and the dashboard's data source.
func watched(t *testing.T) (expressions []string, recorded map[string]bool) {
	t.Helper()
	var rules struct {
		Groups []struct {
			Rules []struct{ Record, Expr string }
		}
	}
	check.NoError(t, yaml.Unmarshal(read(t, "rules.yaml"), &rules))
	recorded = map[string]bool{}
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			expressions = append(expressions, rule.Expr)
			recorded[rule.Record] = true
		}
	}
	var dashboard struct {
		Panels []struct {
			Type, Title, Description string
			Datasource               struct{ UID string }
			Targets                  []struct{ Expr string }
		}
		Templating struct {
			List []struct{ Name, Type string }
		}
	}
	check.NoError(t, json.Unmarshal(read(t, "dashboard.json"), &dashboard))
	for _, panel := range dashboard.Panels {
		if panel.Type != "row" && (panel.Title == "" || panel.Description == "" || panel.Datasource.UID != "${datasource}") {
			t.Errorf("panel %q has no title or description, or asks a data source of one Grafana, %q", panel.Title, panel.Datasource.UID)
		}
		for _, target := range panel.Targets {
			expressions = append(expressions, target.Expr)
		}
	}
	if list := dashboard.Templating.List; len(list) == 0 || list[0].Type != "datasource" {
		t.Errorf("got the variables %v, want the data source first", list)
	}
	return expressions, recorded
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(monitoring + name)
	check.NoError(t, err)
	return raw
}

// selector is a metric in an expression, with the labels that the expression compares with a value.
type selector struct {
	name   string
	labels []string
}

var (
	metric  = regexp.MustCompile(`\b((?:dlq|go|process|kube)[_:][a-zA-Z0-9_:]+|ALERTS)(\{(?:[^}"]|"[^"]*")*\})?`)
	matcher = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)\s*"[^"]*"`)
)

func selectors(expression string) []selector {
	var found []selector
	for _, m := range metric.FindAllStringSubmatch(expression, -1) {
		s := selector{name: m[1]}
		for _, label := range matcher.FindAllStringSubmatch(m[2], -1) {
			s.labels = append(s.labels, label[1])
		}
		found = append(found, s)
	}
	return found
}

func withoutSuffix(name string) string {
	for _, suffix := range []string{"_bucket", "_count", "_sum"} {
		if base, ok := strings.CutSuffix(name, suffix); ok {
			return base
		}
	}
	return name
}

// TestSelectors: the function selectors finds the metrics and labels in an expression of PromQL.
func TestSelectors(t *testing.T) {
	t.Parallel()
	got := fmt.Sprint(selectors(`sum by (le) (rate(dlq_a_bucket{route=~"/x/{topic}|/y",le="0.3"}[5m])) / on (slo) dlq:b:ratio > go_c`))
	if want := "[{dlq_a_bucket [route le]} {dlq:b:ratio []} {go_c []}]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
