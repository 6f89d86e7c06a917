package check

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// open is the mode in which whoever reaches the port may do everything. It is the
// programs' default.
const open = "none"

// openProduction finds a production in which nobody has to say who they are,
// whether a file says so, says nothing, or a variable overrides it.
func openProduction(set *Set) []string {
	var problems []string
	for _, file := range All[*corev1.ConfigMap](set) {
		production, mode, err := protection(file.Data["config.yaml"])
		switch {
		case err != nil:
			problems = append(problems, fmt.Sprintf("ConfigMap %s: %s", file.Name, err))
		case production && mode == open:
			problems = append(problems, fmt.Sprintf("ConfigMap %s: auth.mode is none in production", file.Name))
		}
		if production {
			problems = append(problems, openPods(set)...)
		}
	}
	return problems
}

func isProduction(set *Set) bool {
	for _, file := range All[*corev1.ConfigMap](set) {
		if production, _, err := protection(file.Data["config.yaml"]); err == nil && production {
			return true
		}
	}
	return false
}

func protection(text string) (production bool, mode string, err error) {
	var file struct {
		App  struct{ Environment string }
		Auth struct{ Mode string }
	}
	err = yaml.Unmarshal([]byte(text), &file)
	if mode = file.Auth.Mode; mode == "" {
		mode = open
	}
	return file.App.Environment == "production", mode, err
}

// unansweredServices finds Services that an API without authentication does not answer
// to: it answers to the names of server.hosts alone.
func unansweredServices(set *Set) []string {
	var problems []string
	for _, pod := range set.Pods() {
		if pod.Template.Labels["app.kubernetes.io/component"] != "api" || setting(set, pod, "auth.mode") != open {
			continue
		}
		answered := strings.Split(setting(set, pod, "server.hosts"), ",")
		for _, service := range All[*corev1.Service](set) {
			if !labels.SelectorFromSet(service.Spec.Selector).Matches(labelsOf(pod)) {
				continue
			}
			name := service.Name
			for _, name := range []string{name, name + "." + service.Namespace, name + "." + service.Namespace + ".svc", name + "." + service.Namespace + ".svc.cluster.local"} {
				if !slices.Contains(answered, name) {
					problems = append(problems, fmt.Sprintf("Service %s: server.hosts does not list %s", service.Name, name))
				}
			}
		}
	}
	return problems
}

func openPods(set *Set) []string {
	var problems []string
	for _, pod := range set.Pods() {
		for _, container := range pod.Template.Spec.Containers {
			for _, variable := range container.Env {
				if variable.Name == "DLQ_AUTH_MODE" && variable.Value == open {
					problems = append(problems, fmt.Sprintf("%s %s: DLQ_AUTH_MODE is none in production", pod.Kind, pod.Name))
				}
			}
		}
	}
	return problems
}
