package check

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// kafkaTLSPort is that of the brokers' listener with TLS.
const kafkaTLSPort = 9093

// Who may be connected to and who may connect, as waysFrom writes it. An overlay that moves a
// neighbour, or names its addresses, changes this table with it.
const (
	names       = "namespace kube-system pods k8s-app=kube-dns:53"
	namesByUDP  = "namespace kube-system pods k8s-app=kube-dns:53/UDP"
	database    = "namespace k1s0-system pods app.kubernetes.io/name=postgres:5432"
	vaultServer = "namespace vault pods app.kubernetes.io/name=vault:8200"
	kafka       = "namespace messaging pods app.kubernetes.io/name=kafka:9092"
	kafkaTLS    = "namespace messaging pods app.kubernetes.io/name=kafka:9093"
	issuer      = "10.0.0.10/32:443"
	collector   = "namespace monitoring pods app.kubernetes.io/name=opentelemetry-collector:4318"
	receivers   = "0.0.0.0/0 without 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.168.0.0/16:443"
	clients     = "namespaces dlq-manager/api-client=true:8080"

	// The port is that of the metrics.
	prometheus = "namespace monitoring pods app.kubernetes.io/name=prometheus:"
	scraper    = prometheus + "8080"
)

// ways are what a component has to reach, what it may reach beside that, and who has to
// reach it. Nobody else may.
type ways struct{ need, may, from []string }

func waysOf(set *Set, pod Pod) ways {
	scraper := prometheus + metricsPort(set, pod)
	w := ways{need: []string{names, namesByUDP, database}}
	if len(VaultFiles(pod)) > 0 {
		w.need = append(w.need, vaultServer)
	}
	switch pod.Template.Labels["app.kubernetes.io/component"] {
	case "api":
		w.need = append(w.need, kafka, kafkaTLS)
		w.may = []string{issuer, collector, receivers}
		w.from = []string{clients, scraper}
	case "ingester":
		w.need = append(w.need, kafka, kafkaTLS)
		w.may = []string{collector}
		w.from = []string{scraper}
	}
	return w
}

// metricsPort is where a pod has /metrics.
func metricsPort(set *Set, pod Pod) string {
	if port := setting(set, pod, "server.metrics_port"); port != "" && port != "0" {
		return port
	}
	return "8080"
}

// Egress returns where the pod may connect to, in order and each once, by all policies of
// its namespace; nil for nowhere. ok is false when no policy restricts it.
func Egress(set *Set, pod Pod) (to []string, ok bool) {
	return allowed(set, pod, networkingv1.PolicyTypeEgress, func(policy *networkingv1.NetworkPolicy) []string {
		var to []string
		for _, rule := range policy.Spec.Egress {
			to = append(to, waysFrom(rule.To, rule.Ports)...)
		}
		return to
	})
}

// Ingress returns who may connect to the pod, as Egress returns where it may connect to.
func Ingress(set *Set, pod Pod) (from []string, ok bool) {
	return allowed(set, pod, networkingv1.PolicyTypeIngress, func(policy *networkingv1.NetworkPolicy) []string {
		var from []string
		for _, rule := range policy.Spec.Ingress {
			from = append(from, waysFrom(rule.From, rule.Ports)...)
		}
		return from
	})
}

func allowed(set *Set, pod Pod, kind networkingv1.PolicyType, of func(*networkingv1.NetworkPolicy) []string) (all []string, ok bool) {
	for _, policy := range All[*networkingv1.NetworkPolicy](set) {
		if policy.Namespace == "dlq-manager" && selects(policy, pod) && slices.Contains(policy.Spec.PolicyTypes, kind) {
			ok = true
			all = append(all, of(policy)...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), ok
}

// waysFrom writes each peer with each port. No peers are everybody, no ports all of them.
func waysFrom(peers []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort) []string {
	whom, where := []string{"everybody"}, []string{"every port"}
	if len(peers) > 0 {
		whom = whom[:0]
	}
	for _, peer := range peers {
		whom = append(whom, whomOf(peer))
	}
	if len(ports) > 0 {
		where = where[:0]
	}
	for _, port := range ports {
		where = append(where, whereOf(port))
	}
	var all []string
	for _, peer := range whom {
		for _, port := range where {
			all = append(all, peer+":"+port)
		}
	}
	return all
}

func whomOf(peer networkingv1.NetworkPolicyPeer) string {
	if block := peer.IPBlock; block != nil {
		if len(block.Except) == 0 {
			return block.CIDR
		}
		return block.CIDR + " without " + strings.Join(slices.Sorted(slices.Values(block.Except)), " ")
	}
	whom := "this namespace"
	if namespaces := peer.NamespaceSelector; namespaces != nil {
		name, named := namespaces.MatchLabels["kubernetes.io/metadata.name"]
		switch selector := metav1.FormatLabelSelector(namespaces); {
		case named && len(namespaces.MatchLabels) == 1 && len(namespaces.MatchExpressions) == 0:
			whom = "namespace " + name
		case selector == "<none>":
			whom = "every namespace"
		default:
			whom = "namespaces " + selector
		}
	}
	if peer.PodSelector != nil {
		whom += " pods " + metav1.FormatLabelSelector(peer.PodSelector)
	}
	return whom
}

func whereOf(port networkingv1.NetworkPolicyPort) string {
	where := "every port"
	if port.Port != nil {
		where = port.Port.String()
	}
	if port.EndPort != nil {
		where += fmt.Sprintf(" to %d", *port.EndPort)
	}
	if port.Protocol != nil && *port.Protocol != corev1.ProtocolTCP {
		where += "/" + string(*port.Protocol)
	}
	return where
}

func selects(policy *networkingv1.NetworkPolicy, pod Pod) bool {
	selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
	return err == nil && selector.Matches(labelsOf(pod))
}

// network finds pods that reach too much, or not what they need, that are reached by the
// wrong ones, and policies that are about nobody or let everything through.
func network(set *Set) []string {
	var problems []string
	for _, pod := range set.Pods() {
		for _, problem := range slices.Concat(egressProblems(set, pod), ingressProblems(set, pod)) {
			problems = append(problems, fmt.Sprintf("%s %s: %s", pod.Kind, pod.Name, problem))
		}
	}
	for _, policy := range All[*networkingv1.NetworkPolicy](set) {
		problems = append(problems, policyProblems(set, policy)...)
	}
	return problems
}

func egressProblems(set *Set, pod Pod) []string {
	got, restricted := Egress(set, pod)
	if !restricted {
		return []string{"no policy restricts where it connects to"}
	}
	want := waysOf(set, pod)
	return append(
		without("it cannot reach %s", want.need, got),
		without("it has no business with %s", got, slices.Concat(want.need, want.may))...)
}

func ingressProblems(set *Set, pod Pod) []string {
	got, restricted := Ingress(set, pod)
	if !restricted {
		return []string{"no policy restricts who connects to it"}
	}
	want := waysOf(set, pod).from
	return append(
		without("it cannot be reached by %s", want, got),
		without("nobody needs to come from %s", got, want)...)
}

// without says something of each of these that is none of the others.
func without(format string, these, others []string) []string {
	var problems []string
	for _, one := range these {
		if !slices.Contains(others, one) {
			problems = append(problems, fmt.Sprintf(format, one))
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
