package check

import (
	"fmt"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The servers that the pods connect to, with their ports, in the notation that the function pairs returns. An overlay
// that puts a server into another namespace, or names it by its IP addresses, must change this table too.
const (
	names       = "kubernetes.io/metadata.name=kube-system/k8s-app=kube-dns:53"
	namesByUDP  = names + "/UDP"
	database    = "kubernetes.io/metadata.name=k1s0-system/app.kubernetes.io/name=postgres:5432"
	vaultServer = "kubernetes.io/metadata.name=vault/app.kubernetes.io/name=vault:8200"
	kafka       = "kubernetes.io/metadata.name=messaging/app.kubernetes.io/name=kafka:9092"
	kafkaTLS    = "kubernetes.io/metadata.name=messaging/app.kubernetes.io/name=kafka:9093"
	kafkaTokens = "10.0.0.11/32:443"
	msk         = "10.0.1.0/24:9098"
	sts         = "10.0.1.0/24:443"
	issuer      = "10.0.0.10/32:443"
	collector   = "kubernetes.io/metadata.name=monitoring/app.kubernetes.io/name=opentelemetry-collector:4318"
	openSearch  = "kubernetes.io/metadata.name=k1s0-system/app.kubernetes.io/name=opensearch:9200"
	receivers   = "0.0.0.0/0 without 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.168.0.0/16:443"
	clients     = "dlq-manager/api-client=true/every pod:8080"
	prometheus  = "kubernetes.io/metadata.name=monitoring/app.kubernetes.io/name=prometheus:" // without the port
)

// network reports each outgoing or incoming connection that a pod needs and the network policies block, and each
// connection that the policies allow although the pod must not have it.
func network(set *Set) (problems []string) {
	for _, pod := range set.Pods() {
		report := func(text string, these, others []string) {
			for _, one := range these {
				if !slices.Contains(others, one) {
					problems = append(problems, fmt.Sprintf("%s %s %s %s", pod.Kind, pod.Name, text, one))
				}
			}
		}
		need, may, from := []string{names, namesByUDP, database}, []string{}, []string{}
		if len(vaultFiles(pod)) > 0 {
			need = append(need, vaultServer)
		}
		switch pod.Template.Labels["app.kubernetes.io/component"] {
		case "api":
			need, may = append(need, kafka, kafkaTLS), []string{issuer, collector, receivers, kafkaTokens, msk, sts}
			from = []string{clients, prometheus + metricsPort(set, pod)}
			if set.Setting(pod, "search.engine") == "opensearch" {
				need = append(need, openSearch)
			}
		case "ingester":
			need, may = append(need, kafka, kafkaTLS), []string{collector, kafkaTokens, msk, sts}
			from = []string{prometheus + metricsPort(set, pod)}
		case "archiver":
			if set.Setting(pod, "archive.store") == "s3" {
				need = append(need, receivers)
			}
		}
		egress, ingress := Reach(set, pod)
		report("cannot connect to", need, egress)
		report("must not connect to", egress, slices.Concat(need, may))
		report("cannot be reached from", from, ingress)
		report("must not be reached from", ingress, from)
	}
	return problems
}

// metricsPort returns the port of /metrics.
func metricsPort(set *Set, pod Pod) string {
	if port := set.Setting(pod, "server.metrics_port"); port != "" && port != "0" {
		return port
	}
	return "8080"
}

// Reach returns the peers to which the pod may connect, and the peers that may connect to the pod, under all network
// policies. If no policy restricts a direction, its result is "everywhere".
func Reach(set *Set, pod Pod) (egress, ingress []string) {
	var restricted []networkingv1.PolicyType
	for _, policy := range All[*networkingv1.NetworkPolicy](set) {
		selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
		if err != nil || policy.Namespace != "dlq-manager" || !selector.Matches(pod.Labels()) {
			continue
		}
		restricted = append(restricted, policy.Spec.PolicyTypes...)
		for _, rule := range policy.Spec.Egress {
			egress = append(egress, pairs(rule.To, rule.Ports)...)
		}
		for _, rule := range policy.Spec.Ingress {
			ingress = append(ingress, pairs(rule.From, rule.Ports)...)
		}
	}
	if !slices.Contains(restricted, networkingv1.PolicyTypeEgress) {
		egress = append(egress, "everywhere, since no policy restricts it")
	}
	if !slices.Contains(restricted, networkingv1.PolicyTypeIngress) {
		ingress = append(ingress, "everywhere, since no policy restricts it")
	}
	slices.Sort(egress)
	slices.Sort(ingress)
	return slices.Compact(egress), slices.Compact(ingress)
}

// pairs combines each peer with each port. A rule without peers allows every peer, and a rule without ports allows
// every port.
func pairs(peers []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort) (all []string) {
	if len(peers) == 0 || len(ports) == 0 {
		all = append(all, "everywhere, or every port")
	}
	for _, peer := range peers {
		for _, port := range ports {
			where := "every port"
			if port.Port != nil {
				where = port.Port.String()
			}
			if port.EndPort != nil {
				where += fmt.Sprintf(" to %d", *port.EndPort)
			}
			if port.Protocol != nil && *port.Protocol != "TCP" {
				where += "/" + string(*port.Protocol)
			}
			all = append(all, peerText(peer)+":"+where)
		}
	}
	return all
}

func peerText(peer networkingv1.NetworkPolicyPeer) string {
	if block := peer.IPBlock; block != nil {
		return strings.TrimSuffix(block.CIDR+" without "+strings.Join(block.Except, " "), " without ")
	}
	text := func(selector *metav1.LabelSelector, none, all string) string {
		switch {
		case selector == nil:
			return none
		case len(selector.MatchLabels)+len(selector.MatchExpressions) == 0:
			return all
		default:
			return metav1.FormatLabelSelector(selector)
		}
	}
	return text(peer.NamespaceSelector, "this namespace", "every namespace") + "/" + text(peer.PodSelector, "every pod", "every pod")
}
