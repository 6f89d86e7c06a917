package check

import (
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

const image = "harbor.internal.example.com/k1s0-system/dlq-manager"

func loadTree(t *testing.T) filesys.FileSystem {
	t.Helper()
	tree, err := LoadTree("..")
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func render(t *testing.T, tree filesys.FileSystem, dir string) *Set {
	t.Helper()
	set, err := Render(tree, dir)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// overlay writes a Kustomize overlay of the base manifests, with the components and patches in text, and returns its
// folder.
func overlay(t *testing.T, tree filesys.FileSystem, text string) (dir string) {
	t.Helper()
	text = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [../../base]\n" + text
	if err := tree.WriteFile("/with/overlay/kustomization.yaml", []byte(text)); err != nil {
		t.Fatal(err)
	}
	return "with/overlay"
}

func withComponent(t *testing.T, tree filesys.FileSystem, component string) (dir string) {
	t.Helper()
	return overlay(t, tree, "\ncomponents: [../../components/"+component+"]\n")
}

func renderWith(t *testing.T, component string) *Set {
	t.Helper()
	tree := loadTree(t)
	return render(t, tree, withComponent(t, tree, component))
}

func find[T interface {
	runtime.Object
	metav1.Object
}](t *testing.T, set *Set, name string) T {
	t.Helper()
	for _, object := range All[T](set) {
		if object.GetName() == name {
			return object
		}
	}
	t.Fatalf("no %T named %s", *new(T), name)
	panic("unreachable")
}

func podOf(t *testing.T, set *Set, component string) Pod {
	t.Helper()
	i := slices.IndexFunc(set.Pods(), func(pod Pod) bool { return strings.HasPrefix(pod.Name, "dlq-manager-"+component) })
	if i < 0 {
		t.Fatalf("no workload %s", component)
	}
	return set.Pods()[i]
}

func folders(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob("../" + pattern)
	if err != nil || len(found) == 0 {
		t.Fatalf("got %v, %v, want %s", found, err, pattern)
	}
	return found
}

// kustomizations returns the base, and the base with each overlay, component and example. It reads the folders, so new
// overlays, components and examples are checked too.
func kustomizations(t *testing.T) map[string]*Set {
	t.Helper()
	sets := map[string]*Set{"base": render(t, loadTree(t), "base")}
	for _, folder := range folders(t, "overlays/*") {
		sets[folder] = render(t, loadTree(t), strings.TrimPrefix(folder, "../"))
	}
	for _, folder := range folders(t, "components/*") {
		sets[folder] = renderWith(t, path.Base(folder))
	}
	for _, file := range folders(t, "examples/*.yaml") {
		manifest, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sets[file] = render(t, loadTree(t), "base")
		if err := sets[file].Add(manifest); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	return sets
}

func TestEveryKustomizationIsSound(t *testing.T) {
	t.Parallel()
	for name, set := range kustomizations(t) {
		if got := len(set.Pods()); got < 4 {
			t.Errorf("%s: got %d workloads, want api, ingester, archiver and migrate", name, got)
		}
		for _, problem := range Problems(set) {
			t.Errorf("%s: %s", name, problem)
		}
	}
}

// What docs/configuration.md and the manifests promise about the deployment is true for the base and for every overlay.
func TestPromises(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	commands := map[string]string{
		"api": "/usr/local/bin/dlq-manager-api", "ingester": "/usr/local/bin/dlq-manager-ingester",
		"archiver": "/usr/local/bin/dlq-manager-archiver", "migrate": "/usr/local/bin/dlq-manager-api migrate up",
	}
	const file = "/etc/dlq-manager/configs/config.yaml"
	for _, dir := range append(folders(t, "overlays/*"), "../base") {
		t.Run(dir, func(t *testing.T) {
			t.Parallel()
			set := render(t, loadTree(t), strings.TrimPrefix(dir, "../"))
			check := func(what string, ok bool) {
				t.Helper()
				if !ok {
					t.Error("want " + what)
				}
			}
			scaler := find[*autoscalingv2.HorizontalPodAutoscaler](t, set, "dlq-manager-api").Spec
			cpu := scaler.Metrics[0].ContainerResource
			reach, _ := Reach(set, podOf(t, set, "api"))
			check("an API that reaches no receiver and no collector without its component", !slices.Contains(reach, receivers) && !slices.Contains(reach, collector))
			check("2 to 5 APIs", *scaler.MinReplicas == 2 && scaler.MaxReplicas == 5)
			check("70 % of the CPU of the container api, without sidecars", cpu != nil && cpu.Container == "api" && cpu.Name == "cpu" && *cpu.Target.AverageUtilization == 70)
			service := find[*corev1.Service](t, set, "dlq-manager").Spec
			check("a service on 80", service.Type == "ClusterIP" && service.Ports[0].Port == 80 && service.Ports[0].TargetPort.StrVal == "http")
			archiver := find[*batchv1.CronJob](t, set, "dlq-manager-archiver").Spec
			check("an archiver daily at 03:00 UTC", archiver.Schedule == "0 3 * * *" && archiver.TimeZone != nil && *archiver.TimeZone == "Etc/UTC")
			check("one archiver at a time, also after missed starts", archiver.ConcurrencyPolicy == batchv1.ForbidConcurrent && archiver.StartingDeadlineSeconds != nil)
			job := find[*batchv1.Job](t, set, podOf(t, set, "migrate").Name).Spec
			for _, spec := range []batchv1.JobSpec{job, archiver.JobTemplate.Spec} {
				check("jobs that end", spec.ActiveDeadlineSeconds != nil && spec.BackoffLimit != nil && spec.TTLSecondsAfterFinished != nil)
			}
			namespace := find[*corev1.Namespace](t, set, "dlq-manager")
			check("a restricted namespace", namespace.Labels["pod-security.kubernetes.io/enforce"] == "restricted")
			for _, object := range set.Objects {
				named := object.(metav1.Object)
				check(named.GetName()+" in the namespace", named.GetNamespace() == "dlq-manager" || named.GetName() == "dlq-manager-database" || named == metav1.Object(namespace))
			}
			for component, command := range commands {
				pod := podOf(t, set, component)
				container := pod.Container()
				check(component+" to run "+command, strings.Join(container.Command, " ") == command && strings.HasPrefix(container.Image, image+":"))
				check(component+" to find its configuration", slices.Contains(container.Args, "--config="+file) || path.Join(container.WorkingDir, "configs/config.yaml") == file)
				check(component+" to have it", slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "config" && m.MountPath == path.Dir(file) }))
				check("no password in the ConfigMap", set.Setting(pod, "database.password") == "")
				for _, variable := range container.Env {
					check(variable.Name+" to be a setting", !strings.HasPrefix(variable.Name, "DLQ_") || strings.Contains(string(page), "`"+variable.Name+"`"))
				}
				if pod.Once {
					continue
				}
				check(component+" on port 8080", container.Ports[0].Name == "http" && container.Ports[0].ContainerPort == 8080)
				for probe, want := range map[*corev1.Probe]string{container.StartupProbe: "/healthz", container.LivenessProbe: "/healthz", container.ReadinessProbe: "/readyz"} {
					check(component+" to be probed at "+want, probe != nil && probe.HTTPGet != nil && probe.HTTPGet.Path == want && probe.HTTPGet.Port.StrVal == "http")
				}
				budget := find[*policyv1.PodDisruptionBudget](t, set, pod.Name).Spec
				check("a drain to take one pod of "+component+", ready or not", budget.MaxUnavailable.IntValue() == 1 && *budget.UnhealthyPodEvictionPolicy == policyv1.AlwaysAllow)
			}
		})
	}
}

func TestComponents(t *testing.T) {
	t.Parallel()
	dynamic := renderWith(t, "vault-dynamic-credentials")
	for _, name := range []string{"api", "ingester", "archiver"} {
		pod := podOf(t, dynamic, name)
		if files := vaultFiles(pod); files["db-credentials"] != "database/creds/dlq-manager-rw" || files["db-password"] != "" || dynamic.Setting(pod, "database.password_file") != "" {
			t.Errorf("%s: got the files %v, want user and password in one file", name, files)
		}
	}
	const inVault = "secret/data/k1s0/system/"
	static, own := render(t, loadTree(t), "base"), renderWith(t, "separate-migrator")
	for name, want := range map[string]map[string]string{
		"api":      {"db-password": inVault + "dlq-manager/database", "kafka-username": inVault + "kafka/sasl", "kafka-password": inVault + "kafka/sasl"},
		"archiver": {"db-password": inVault + "dlq-manager/database"},
	} {
		if got := vaultFiles(podOf(t, static, name)); !maps.Equal(got, want) {
			t.Errorf("%s: got the files %v, want %v", name, got, want)
		}
	}
	tiered := renderWith(t, "s3-archive")
	for _, name := range []string{"api", "archiver"} {
		pod := podOf(t, tiered, name)
		if tiered.Setting(pod, "archive.store") != "s3" || tiered.Setting(pod, "archive.s3.bucket") != "dlq-manager-archive" {
			t.Errorf("%s: got the store %q, want s3 with its bucket", name, tiered.Setting(pod, "archive.store"))
		}
	}
	searched := renderWith(t, "opensearch")
	if pod := podOf(t, searched, "api"); searched.Setting(pod, "search.engine") != "opensearch" || searched.Setting(pod, "search.opensearch.password_file") == "" {
		t.Errorf("api: got the engine %q, want opensearch with a password", searched.Setting(pod, "search.engine"))
	}
	migrator := podOf(t, own, "migrate")
	if own.Setting(migrator, "database.user") != "dlq_migrator" || vaultFiles(migrator)["db-password"] != inVault+"dlq-manager/migrator" || own.Setting(podOf(t, own, "api"), "database.user") == "dlq_migrator" {
		t.Error("want the migrations alone to have the migrator's user")
	}
	guarded := renderWith(t, "database-policy")
	rules := find[*networkingv1.NetworkPolicy](t, guarded, "dlq-manager-database").Spec.Ingress
	if len(rules) != 1 || !slices.Equal(pairs(rules[0].From, rules[0].Ports), []string{"kubernetes.io/metadata.name=dlq-manager/app.kubernetes.io/name=dlq-manager:5432"}) {
		t.Errorf("got %v, want the programs alone to reach the database", rules)
	}
	scaled := renderWith(t, "keda")
	least, _, _ := unstructured.NestedInt64(find[*unstructured.Unstructured](t, scaled, "dlq-manager-ingester").Object, "spec", "minReplicaCount")
	if least < 1 || find[*appsv1.Deployment](t, scaled, "dlq-manager-ingester").Spec.Replicas != nil {
		t.Error("want KEDA alone to scale the ingester, and never to zero: a group without a commit has no lag")
	}
	for dir, port := range map[string]string{"monitoring": "http", "overlays/prod": "metrics"} {
		set := render(t, loadTree(t), "overlays/prod")
		if dir == "monitoring" {
			set = renderWith(t, dir)
		}
		service, pods := find[*monitoringv1.ServiceMonitor](t, set, "dlq-manager-api").Spec, find[*monitoringv1.PodMonitor](t, set, "dlq-manager-ingester").Spec
		labels := func(component string) string {
			return "app.kubernetes.io/component=" + component + ",app.kubernetes.io/name=dlq-manager"
		}
		if metav1.FormatLabelSelector(&service.Selector) != labels("api") || metav1.FormatLabelSelector(&pods.Selector) != labels("ingester") {
			t.Errorf("%s: want the API's Service and the ingester's pods scraped, once each, and no job", dir)
		}
		a, b := service.Endpoints[0], pods.PodMetricsEndpoints[0]
		if a.Path != "/metrics" || b.Path != "/metrics" || a.Port != port || *b.Port != port || a.Interval != b.Interval || !slices.Equal(service.PodTargetLabels, pods.PodTargetLabels) {
			t.Errorf("%s: want both monitors to ask for /metrics on port %s and to add the same labels, which rules and dashboards group by", dir, port)
		}
	}
}

func TestTheProductionOverlayIsProtected(t *testing.T) {
	t.Parallel()
	set := render(t, loadTree(t), "overlays/prod")
	for _, name := range []string{"api", "ingester", "archiver", "migrate"} {
		pod, serving := podOf(t, set, name), name == "api" || name == "ingester"
		for key, want := range map[string]string{
			"app.environment": "production", "auth.mode": "oidc", "database.ssl_mode": "verify-full", "kafka.security_protocol": "SASL_SSL", "kafka.origin_trust": "declared",
			"kafka.origins": `[{dlq: "*.dlq.v1", originals: ["$1.*"]}]`, "server.metrics_port": "9090",
		} {
			if got := set.Setting(pod, key); got != want && (serving || !strings.HasPrefix(key, "kafka.") && !strings.HasPrefix(key, "server.")) {
				t.Errorf("%s: %s is %q, want %q", name, key, got, want)
			}
		}
		if set.Setting(pod, "database.ssl_root_cert") == "" {
			t.Errorf("%s: no authority of the database's certificate", name)
		}
	}
}

// The README shows an overlay for passwords in a Secret and for a Kafka that requires a sign-in. With the patches of
// the README, Problems reports nothing for this overlay, nor for the same overlay with KEDA. Without the patches,
// Problems reports that no Secret holds one of the files.
func TestThePlainSecretSignsInAsDocumented(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)  ```yaml\n(  components:\n    - ../../components/plain-secret\n.*?)  ```").FindStringSubmatch(string(raw))
	if found == nil {
		t.Fatal("the documentation shows no plain-secret with kafka-sasl")
	}
	shown := strings.ReplaceAll("\n"+found[1], "\n  ", "\n")
	unpatched, _, _ := strings.Cut(shown, "patches:")
	for text, want := range map[string]string{
		shown: "", strings.ReplaceAll(shown, "kafka-sasl", "keda-sasl"): "",
		unpatched: "DLQ_KAFKA_SASL_USERNAME_FILE is /vault/secrets/kafka-username, which no Secret holds",
	} {
		tree := loadTree(t)
		if got := problems(tree, overlay(t, tree, text)); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("got %q, want %q of\n%s", got, want, text)
		}
	}
}
