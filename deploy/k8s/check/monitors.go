package check

import (
	"fmt"
	"slices"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// monitored finds, in a set that has monitors, pods that nobody scrapes, that are
// scraped twice (every number of theirs would count double), or that are gone before
// anybody could; and monitors of nothing, or of a port that is not there.
func monitored(set *Set) []string {
	services, pods := All[*monitoringv1.ServiceMonitor](set), All[*monitoringv1.PodMonitor](set)
	if len(services)+len(pods) == 0 {
		return nil
	}
	var problems []string
	scraped := map[string]int{} // by workload
	for _, monitor := range services {
		problems = append(problems, scrapedByService(set, monitor, scraped)...)
	}
	for _, monitor := range pods {
		problems = append(problems, scrapedByPod(set, monitor, scraped)...)
	}
	for _, pod := range set.Pods() {
		want := 1
		if pod.Once {
			want = 0
		}
		if got := scraped[pod.Name]; got != want {
			problems = append(problems, fmt.Sprintf("%s %s is scraped %d times, want %d", pod.Kind, pod.Name, got, want))
		}
	}
	return problems
}

func scrapedByService(set *Set, monitor *monitoringv1.ServiceMonitor, scraped map[string]int) []string {
	var problems []string
	selector, err := metav1.LabelSelectorAsSelector(&monitor.Spec.Selector)
	found := false
	for _, service := range All[*corev1.Service](set) {
		if err != nil || service.Namespace != monitor.Namespace || !selector.Matches(labels.Set(service.Labels)) {
			continue
		}
		found = true
		for _, endpoint := range monitor.Spec.Endpoints {
			named := func(port corev1.ServicePort) bool { return port.Name == endpoint.Port }
			problems = append(problems, endpointProblems("ServiceMonitor "+monitor.Name, endpoint.Path, endpoint.Port,
				slices.ContainsFunc(service.Spec.Ports, named))...)
			for _, pod := range set.Pods() {
				if labels.SelectorFromSet(service.Spec.Selector).Matches(labelsOf(pod)) {
					scraped[pod.Name]++
					problems = append(problems, portProblems(set, pod, "ServiceMonitor "+monitor.Name, endpoint.Port)...)
				}
			}
		}
	}
	if !found {
		problems = append(problems, fmt.Sprintf("ServiceMonitor %s finds no Service", monitor.Name))
	}
	return problems
}

func scrapedByPod(set *Set, monitor *monitoringv1.PodMonitor, scraped map[string]int) []string {
	var problems []string
	selector, err := metav1.LabelSelectorAsSelector(&monitor.Spec.Selector)
	found := false
	for _, pod := range set.Pods() {
		if err != nil || !selector.Matches(labelsOf(pod)) {
			continue
		}
		found = true
		for _, endpoint := range monitor.Spec.PodMetricsEndpoints {
			scraped[pod.Name]++
			name := ""
			if endpoint.Port != nil {
				name = *endpoint.Port
			}
			named := func(port corev1.ContainerPort) bool { return port.Name == name }
			problems = append(problems, endpointProblems("PodMonitor "+monitor.Name, endpoint.Path, name,
				slices.ContainsFunc(pod.Template.Spec.Containers[0].Ports, named))...)
			problems = append(problems, portProblems(set, pod, "PodMonitor "+monitor.Name, name)...)
		}
	}
	if !found {
		problems = append(problems, fmt.Sprintf("PodMonitor %s finds no pod", monitor.Name))
	}
	return problems
}

// portProblems finds a monitor that asks on another port than the one that the metrics
// are on. Ports of a Service have the names of those of its pods.
func portProblems(set *Set, pod Pod, monitor, name string) []string {
	for _, port := range pod.Template.Spec.Containers[0].Ports {
		if port.Name == name && fmt.Sprint(port.ContainerPort) != metricsPort(set, pod) {
			return []string{fmt.Sprintf("%s asks on port %d, the metrics of %s are on %s", monitor, port.ContainerPort, pod.Name, metricsPort(set, pod))}
		}
	}
	return nil
}

func endpointProblems(monitor, path, port string, there bool) []string {
	if path != "/metrics" || !there {
		return []string{fmt.Sprintf("%s asks for %q on port %q, which is not there", monitor, path, port)}
	}
	return nil
}
