package check

import (
	"maps"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// User and password change together, so they come in one file, and the static
// password is gone from the pods that use it.
func TestDynamicCredentialsAreOneFile(t *testing.T) {
	t.Parallel()
	set := renderWith(t, "vault-dynamic-credentials")
	for _, name := range []string{"api", "ingester", "archiver"} {
		pod := podOf(t, set, name)
		files := VaultFiles(pod)
		if files["db-credentials"] != "database/creds/dlq-manager-rw" || files["db-password"] != "" {
			t.Errorf("%s: got files %v, want db-credentials and no db-password", name, files)
		}
		if got := variable(pod, "DLQ_DATABASE_CREDENTIALS_FILE"); got != "/vault/secrets/db-credentials" {
			t.Errorf("%s: got credentials file %q", name, got)
		}
		if got := variable(pod, "DLQ_DATABASE_PASSWORD_FILE"); got != "" {
			t.Errorf("%s: still reads %s", name, got)
		}
		for annotated := range pod.Template.Annotations {
			if strings.HasSuffix(annotated, "db-password") {
				t.Errorf("%s: %s was left behind", name, annotated)
			}
		}
	}
	if got := variable(podOf(t, set, "migrate"), "DLQ_DATABASE_PASSWORD_FILE"); got == "" {
		t.Error("the migrations lost their own user's password")
	}
}

func TestTheMigratorHasItsOwnUser(t *testing.T) {
	t.Parallel()
	set := renderWith(t, "separate-migrator")
	pod := podOf(t, set, "migrate")
	if got := variable(pod, "DLQ_DATABASE_USER"); got != "dlq_migrator" {
		t.Errorf("got user %q, want dlq_migrator", got)
	}
	if got := VaultFiles(pod)["db-password"]; got != "secret/data/k1s0/system/dlq-manager/migrator" {
		t.Errorf("got secret %q", got)
	}
	if got := variable(podOf(t, set, "api"), "DLQ_DATABASE_USER"); got != "" {
		t.Errorf("the API runs as %q", got)
	}
}

func TestOnlyTheProgramsReachTheDatabase(t *testing.T) {
	t.Parallel()
	set := renderWith(t, "database-policy")
	spec := find[*networkingv1.NetworkPolicy](t, set, "dlq-manager-database").Spec
	if len(spec.Ingress) != 1 || len(spec.Ingress[0].From) != 1 || !slices.Equal(spec.PolicyTypes, []networkingv1.PolicyType{"Ingress"}) {
		t.Fatalf("got %+v, want one way in", spec)
	}
	from := spec.Ingress[0].From[0]
	if from.NamespaceSelector == nil || from.NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"] != "dlq-manager" {
		t.Errorf("got namespaces %v, want dlq-manager", from.NamespaceSelector)
	}
	selector, err := metav1.LabelSelectorAsSelector(from.PodSelector)
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range set.Pods() {
		if !selector.Matches(labelsOf(pod)) {
			t.Errorf("%s is locked out of its database", pod.Name)
		}
	}
	if ports := spec.Ingress[0].Ports; len(ports) != 1 || ports[0].Port.IntValue() != 5432 {
		t.Errorf("got ports %v, want 5432", ports)
	}
}

func TestMonitoringScrapesWhatServes(t *testing.T) {
	t.Parallel()
	set := renderWith(t, "monitoring")
	service := find[*monitoringv1.ServiceMonitor](t, set, "dlq-manager-api").Spec
	if want := find[*corev1.Service](t, set, "dlq-manager").Labels; !maps.Equal(service.Selector.MatchLabels, map[string]string{
		"app.kubernetes.io/name": want["app.kubernetes.io/name"], "app.kubernetes.io/component": want["app.kubernetes.io/component"],
	}) {
		t.Errorf("the ServiceMonitor selects %v, want the API's Service, %v", service.Selector.MatchLabels, want)
	}
	pods := find[*monitoringv1.PodMonitor](t, set, "dlq-manager-ingester").Spec
	selector, err := metav1.LabelSelectorAsSelector(&pods.Selector)
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range set.Pods() {
		ingester := pod.Name == "dlq-manager-ingester"
		if got := selector.Matches(labelsOf(pod)); got != ingester {
			t.Errorf("%s scraped by the PodMonitor: %t, want %t", pod.Name, got, ingester)
		}
	}
	if len(service.Endpoints) != 1 || len(pods.PodMetricsEndpoints) != 1 {
		t.Fatalf("got %d and %d endpoints, want one each", len(service.Endpoints), len(pods.PodMetricsEndpoints))
	}
}

// Rules and dashboards tell the programs apart by their pods and namespaces, which
// both monitors add; a label that only one of them has would be of no use.
func TestBothMonitorsAddTheSameLabels(t *testing.T) {
	t.Parallel()
	set := renderWith(t, "monitoring")
	service := find[*monitoringv1.ServiceMonitor](t, set, "dlq-manager-api").Spec
	pods := find[*monitoringv1.PodMonitor](t, set, "dlq-manager-ingester").Spec
	if !slices.Equal(service.PodTargetLabels, pods.PodTargetLabels) || len(service.TargetLabels) > 0 {
		t.Errorf("got %v and %v of the Service against %v", service.PodTargetLabels, service.TargetLabels, pods.PodTargetLabels)
	}
	if a, b := service.Endpoints[0].Interval, pods.PodMetricsEndpoints[0].Interval; a != b {
		t.Errorf("got intervals %s and %s, want one", a, b)
	}
}

func TestKEDASignsInOverTLS(t *testing.T) {
	t.Parallel()
	set := renderWith(t, "keda-sasl")
	trigger := find[*ScaledObject](t, set, "dlq-manager-ingester").Spec.Triggers[0]
	for key, want := range map[string]string{
		"sasl": "scram_sha512", "tls": "enable", "bootstrapServers": "kafka-0.messaging.svc.cluster.local:9093",
		"consumerGroup": "dlq-manager.default", "offsetResetPolicy": "earliest",
	} {
		if got := trigger.Metadata[key]; got != want {
			t.Errorf("%s: got %q, want %q", key, got, want)
		}
	}
	if trigger.AuthenticationRef == nil {
		t.Fatal("the trigger names no credentials")
	}
	got := map[string]string{}
	for _, ref := range find[*TriggerAuthentication](t, set, trigger.AuthenticationRef.Name).Spec.SecretTargetRef {
		got[ref.Parameter] = ref.Name + "/" + ref.Key
	}
	want := map[string]string{"username": "dlq-manager-secrets/kafka-username", "password": "dlq-manager-secrets/kafka-password"}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// The Secret is the one that the ingester's pods mount in clusters without Vault.
func TestKEDAReadsTheKeysOfThePlainSecret(t *testing.T) {
	t.Parallel()
	var keys []string
	for _, volume := range podOf(t, renderWith(t, "plain-secret"), "ingester").Template.Spec.Volumes {
		if volume.Secret != nil && volume.Secret.SecretName == "dlq-manager-secrets" {
			for _, item := range volume.Secret.Items {
				keys = append(keys, item.Key)
			}
		}
	}
	for _, ref := range find[*TriggerAuthentication](t, renderWith(t, "keda-sasl"), "dlq-manager-kafka").Spec.SecretTargetRef {
		if !slices.Contains(keys, ref.Key) {
			t.Errorf("key %s is none of %v", ref.Key, keys)
		}
	}
}

func TestKEDAScalesTheIngesterAlone(t *testing.T) {
	t.Parallel()
	set := renderWith(t, "keda")
	spec := find[*ScaledObject](t, set, "dlq-manager-ingester").Spec
	if spec.ScaleTargetRef.Name != "dlq-manager-ingester" {
		t.Errorf("scales %s", spec.ScaleTargetRef.Name)
	}
	if spec.MinReplicaCount == nil || *spec.MinReplicaCount < 1 {
		t.Error("a group that never committed shows no lag: from zero nothing would wake it")
	}
	if got := find[*appsv1.Deployment](t, set, "dlq-manager-ingester").Spec.Replicas; got != nil {
		t.Errorf("the manifest still says %d replicas", *got)
	}
	want := map[string]string{"consumerGroup": "dlq-manager.default", "offsetResetPolicy": "earliest"}
	for key, value := range want {
		if got := spec.Triggers[0].Metadata[key]; got != value {
			t.Errorf("%s: got %q, want %q in %v", key, got, value, slices.Sorted(maps.Keys(spec.Triggers[0].Metadata)))
		}
	}
}
