package check

import (
	"maps"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
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
	spec := find[*monitoringv1.PodMonitor](t, set, "dlq-manager").Spec
	selector, err := metav1.LabelSelectorAsSelector(&spec.Selector)
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range set.Pods() {
		serving := pod.Kind == "Deployment"
		if got := selector.Matches(labelsOf(pod)); got != serving {
			t.Errorf("%s scraped: %t, want %t", pod.Name, got, serving)
		}
	}
	if len(spec.PodMetricsEndpoints) != 1 {
		t.Fatalf("got %d endpoints, want 1", len(spec.PodMetricsEndpoints))
	}
	if endpoint := spec.PodMetricsEndpoints[0]; endpoint.Path != "/metrics" || endpoint.Port == nil || *endpoint.Port != "http" {
		t.Errorf("got %+v, want /metrics on http", endpoint)
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
