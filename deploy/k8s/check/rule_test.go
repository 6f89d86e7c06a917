package check

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
)

var write = flag.Bool("write", false, "write components/monitoring/prometheus-rule.yaml anew, of its rules.yaml")

const (
	rulesFile    = "../components/monitoring/rules.yaml"
	operatorFile = "../components/monitoring/prometheus-rule.yaml"

	operatorHead = `# Made of rules.yaml by "go test ./... -run PrometheusRule -write" in deploy/k8s/check.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: dlq-manager
  namespace: dlq-manager
  labels:
    app.kubernetes.io/name: dlq-manager
    app.kubernetes.io/part-of: k1s0-system
spec:
`
)

// The rules are kept as Prometheus reads them, which is how they are tested; the
// operator has the same.
func TestPrometheusRuleIsTheRules(t *testing.T) {
	raw, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	want.WriteString(operatorHead)
	for line := range strings.Lines(string(raw)) {
		if line != "\n" {
			want.WriteString("  ")
		}
		want.WriteString(line)
	}
	if *write {
		if err := os.WriteFile(operatorFile, []byte(want.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(operatorFile)
	if err != nil || string(got) != want.String() {
		t.Errorf("%s is not made of %s (%v): run this test with -write", operatorFile, rulesFile, err)
	}
}

// promtool is not there in every clone, so no test runs it: what must be green does.
func TestTheAlertsAreTestedBeforeAnythingLands(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{
		"../../../.ci/run":  "(?m)^make rules$",
		"../../../Makefile": `(?m)^release-check:[^#\n]* rules `,
	} {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !regexp.MustCompile(want).Match(raw) {
			t.Errorf("%s does not run the tests of the alerts", file)
		}
	}
}

func TestMonitoringAlertsAndDraws(t *testing.T) {
	t.Parallel()
	set := renderWith(t, "monitoring")
	rules := find[*monitoringv1.PrometheusRule](t, set, "dlq-manager").Spec
	var alerts int
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			if rule.Alert != "" {
				alerts++
			}
		}
	}
	if alerts < 30 {
		t.Errorf("got %d alerts, want those of the objectives and of what is no objective", alerts)
	}
}
