package check

import (
	"encoding/json"
	"fmt"
	"strings"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	corev1 "k8s.io/api/core/v1"
)

// runbook is where every alert has an entry under its own name.
const runbook = "https://github.com/dlq-manager/dlq-manager/blob/main/docs/runbook.md#"

// silentAlerts finds alerts that would reach nobody, or somebody who then does not
// know what to do. Whether their expressions work is tested where promtool is.
func silentAlerts(set *Set) []string {
	var problems []string
	for _, rules := range All[*monitoringv1.PrometheusRule](set) {
		for _, group := range rules.Spec.Groups {
			for _, rule := range group.Rules {
				if rule.Alert != "" {
					problems = append(problems, alertProblems(rule)...)
				}
			}
		}
	}
	return problems
}

func alertProblems(rule monitoringv1.Rule) []string {
	var problems []string
	if severity := rule.Labels["severity"]; severity != "page" && severity != "ticket" {
		problems = append(problems, fmt.Sprintf("alert %s: severity is %q, want page or ticket", rule.Alert, severity))
	}
	if rule.Annotations["summary"] == "" {
		problems = append(problems, fmt.Sprintf("alert %s has no summary", rule.Alert))
	}
	if got, want := rule.Annotations["runbook_url"], runbook+strings.ToLower(rule.Alert); got != want {
		problems = append(problems, fmt.Sprintf("alert %s: runbook_url is %q, want %q", rule.Alert, got, want))
	}
	return problems
}

// brokenDashboards finds config maps for Grafana that hold no dashboard, or one that
// only works where it was made.
func brokenDashboards(set *Set) []string {
	var problems []string
	for _, file := range All[*corev1.ConfigMap](set) {
		if file.Labels["grafana_dashboard"] == "" {
			continue
		}
		for name, text := range file.Data {
			for _, problem := range dashboardProblems(text) {
				problems = append(problems, fmt.Sprintf("dashboard %s: %s", name, problem))
			}
		}
	}
	return problems
}

func dashboardProblems(text string) []string {
	var dashboard struct {
		UID        string
		Panels     []dashboardPanel
		Templating struct {
			List []struct{ Name, Type string }
		}
	}
	if err := json.Unmarshal([]byte(text), &dashboard); err != nil {
		return []string{err.Error()}
	}
	var problems []string
	variables := dashboard.Templating.List
	if dashboard.UID == "" || len(variables) == 0 || variables[0].Type != "datasource" {
		problems = append(problems, "no uid, or its first variable is not the data source")
	}
	ids := map[int]bool{}
	for _, panel := range dashboard.Panels {
		if ids[panel.ID] {
			problems = append(problems, fmt.Sprintf("panel %q has the id of another", panel.Title))
		}
		ids[panel.ID] = true
		problems = append(problems, panel.problems()...)
	}
	return problems
}

type dashboardPanel struct {
	ID                       int
	Title, Type, Description string
	Datasource               struct{ UID string }
	Targets                  []struct{ Expr string }
}

func (p dashboardPanel) problems() []string {
	switch {
	case p.Type == "row":
		return nil
	case p.Title == "" || p.Description == "" || len(p.Targets) == 0:
		return []string{fmt.Sprintf("panel %q has no title, description or query", p.Title)}
	case p.Datasource.UID != "${datasource}":
		return []string{fmt.Sprintf("panel %q asks the data source %q", p.Title, p.Datasource.UID)}
	}
	return nil
}
