package check

import (
	"fmt"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Ports of the neighbours.
const (
	dnsPort      = 53
	httpsPort    = 443
	otlpPort     = 4318
	databasePort = 5432
	vaultPort    = 8200
	kafkaPort    = 9092
	kafkaTLSPort = 9093
)

// Egress returns the ports that the pod may reach anywhere, in order, by all
// policies of its namespace; nil for none. ok is false when no policy restricts it.
func Egress(set *Set, pod Pod) (ports []int, ok bool) {
	for _, policy := range All[*networkingv1.NetworkPolicy](set) {
		if policy.Namespace != "dlq-manager" || !selects(policy, pod) || !slices.Contains(policy.Spec.PolicyTypes, networkingv1.PolicyTypeEgress) {
			continue
		}
		ok = true
		for _, rule := range policy.Spec.Egress {
			for _, port := range rule.Ports {
				ports = append(ports, port.Port.IntValue())
			}
		}
	}
	slices.Sort(ports)
	return slices.Compact(ports), ok
}

func selects(policy *networkingv1.NetworkPolicy, pod Pod) bool {
	selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
	return err == nil && selector.Matches(labelsOf(pod))
}

// network finds pods that reach too much, or not what they need, and policies that
// are about nobody or let everything through.
func network(set *Set) []string {
	var problems []string
	for _, pod := range set.Pods() {
		for _, problem := range egressProblems(set, pod) {
			problems = append(problems, fmt.Sprintf("%s %s: %s", pod.Kind, pod.Name, problem))
		}
	}
	for _, policy := range All[*networkingv1.NetworkPolicy](set) {
		problems = append(problems, policyProblems(set, policy)...)
	}
	return problems
}

func egressProblems(set *Set, pod Pod) []string {
	ports, restricted := Egress(set, pod)
	if !restricted {
		return []string{"no policy restricts where it connects to"}
	}
	var problems []string
	need := []int{dnsPort, databasePort}
	if len(VaultFiles(pod)) > 0 {
		need = append(need, vaultPort)
	}
	if !pod.Once {
		need = append(need, kafkaPort, kafkaTLSPort)
	}
	for _, port := range need {
		if !slices.Contains(ports, port) {
			problems = append(problems, fmt.Sprintf("it cannot reach port %d", port))
		}
	}
	var may []int
	switch {
	case strings.HasSuffix(pod.Name, "-api"):
		may = []int{httpsPort, otlpPort}
	case !pod.Once:
		may = []int{otlpPort}
	}
	for _, port := range ports {
		if !slices.Contains(need, port) && !slices.Contains(may, port) {
			problems = append(problems, fmt.Sprintf("it has no business with port %d", port))
		}
	}
	return problems
}

func policyProblems(set *Set, policy *networkingv1.NetworkPolicy) []string {
	if policy.Namespace != "dlq-manager" {
		return nil // about somebody else's pods
	}
	var problems []string
	if !slices.ContainsFunc(set.Pods(), func(pod Pod) bool { return selects(policy, pod) }) {
		problems = append(problems, fmt.Sprintf("NetworkPolicy %s is about no pod", policy.Name))
	}
	for _, rule := range policy.Spec.Egress {
		if len(rule.To) == 0 || len(rule.Ports) == 0 {
			problems = append(problems, fmt.Sprintf("NetworkPolicy %s lets pods out everywhere", policy.Name))
		}
	}
	for _, rule := range policy.Spec.Ingress {
		if len(rule.From) == 0 || len(rule.Ports) == 0 {
			problems = append(problems, fmt.Sprintf("NetworkPolicy %s lets everybody in", policy.Name))
		}
	}
	return problems
}
