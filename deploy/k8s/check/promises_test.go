package check

import (
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const image = "harbor.internal.example.com/k1s0-system/dlq-manager"

func find[T interface {
	runtime.Object
	metav1.Object
}](t *testing.T, set *Set, name string) T {
	t.Helper()
	object, ok := Find[T](set, name)
	if !ok {
		t.Fatalf("no %T named %s", object, name)
	}
	return object
}

func podOf(t *testing.T, set *Set, name string) Pod {
	t.Helper()
	for _, pod := range set.Pods() {
		// The name of the migrations goes on with the release.
		if pod.Name == "dlq-manager-"+name || strings.HasPrefix(pod.Name, "dlq-manager-"+name+"-") {
			return pod
		}
	}
	t.Fatalf("no workload dlq-manager-%s", name)
	return Pod{}
}

// eachDeployment runs a test on the base and on every overlay.
func eachDeployment(t *testing.T, test func(t *testing.T, set *Set)) {
	t.Helper()
	t.Parallel()
	dirs := []string{"base"}
	for _, overlay := range subdirectories(t, "overlays") {
		dirs = append(dirs, path.Join("overlays", overlay))
	}
	for _, dir := range dirs {
		t.Run(dir, func(t *testing.T) { test(t, render(t, loadTree(t), dir)) })
	}
}

func TestTheAPIScalesFromTwoToFive(t *testing.T) {
	eachDeployment(t, func(t *testing.T, set *Set) {
		api := find[*appsv1.Deployment](t, set, "dlq-manager-api")
		if api.Spec.Replicas == nil || *api.Spec.Replicas != 2 {
			t.Errorf("got %v replicas, want 2", api.Spec.Replicas)
		}
		scaler := find[*autoscalingv2.HorizontalPodAutoscaler](t, set, "dlq-manager-api").Spec
		if scaler.MinReplicas == nil || *scaler.MinReplicas != 2 || scaler.MaxReplicas != 5 {
			t.Errorf("got %v to %d replicas, want 2 to 5", scaler.MinReplicas, scaler.MaxReplicas)
		}
		if len(scaler.Metrics) != 1 || scaler.Metrics[0].ContainerResource == nil {
			t.Fatalf("got metrics %v, want one of the container", scaler.Metrics)
		}
		cpu := scaler.Metrics[0].ContainerResource
		if cpu.Name != corev1.ResourceCPU || cpu.Container != "api" || cpu.Target.AverageUtilization == nil || *cpu.Target.AverageUtilization != 70 {
			t.Errorf("got %+v, want 70 %% of the CPU of container api", cpu)
		}
	})
}

func TestTheServiceLeadsFrom80To8080(t *testing.T) {
	eachDeployment(t, func(t *testing.T, set *Set) {
		service := find[*corev1.Service](t, set, "dlq-manager").Spec
		apart := metricsPort(set, podOf(t, set, "api")) != "8080" // then the metrics have a port too
		want := 1
		if apart {
			want = 2
		}
		if service.Type != corev1.ServiceTypeClusterIP || len(service.Ports) != want {
			t.Fatalf("got %s with ports %v, want ClusterIP with %d", service.Type, service.Ports, want)
		}
		if got := service.Ports[want-1]; apart && (got.Port != 9090 || got.TargetPort.StrVal != "metrics") {
			t.Errorf("got %d to %s, want 9090 to metrics", got.Port, got.TargetPort.String())
		}
		if got := service.Ports[0]; got.Port != 80 || got.TargetPort.StrVal != "http" {
			t.Errorf("got %d to %s, want 80 to http", got.Port, got.TargetPort.String())
		}
		for _, name := range []string{"api", "ingester"} {
			ports := podOf(t, set, name).Template.Spec.Containers[0].Ports
			if len(ports) != want || ports[0].Name != "http" || ports[0].ContainerPort != 8080 {
				t.Errorf("%s: got ports %v, want http on 8080, and no more than the metrics beside it", name, ports)
			}
		}
	})
}

// A Service's variables would be read as settings wherever service links are on,
// as in a debug pod, if its name began like a section of the configuration.
func TestNoServiceIsNamedLikeASetting(t *testing.T) {
	keys, _ := documented(t)
	eachDeployment(t, func(t *testing.T, set *Set) {
		for _, service := range All[*corev1.Service](set) {
			for key := range keys {
				section, _, _ := strings.Cut(key, ".")
				if strings.HasPrefix(service.Name+"-", "dlq-"+section+"-") {
					t.Errorf("service %s would set DLQ_%s variables", service.Name, strings.ToUpper(section))
					break
				}
			}
		}
	})
}

func TestProbesAskTheRightQuestion(t *testing.T) {
	eachDeployment(t, func(t *testing.T, set *Set) {
		for _, name := range []string{"api", "ingester"} {
			container := podOf(t, set, name).Template.Spec.Containers[0]
			for _, probe := range []struct {
				name, path string
				probe      *corev1.Probe
			}{
				{"startup", "/healthz", container.StartupProbe},
				{"liveness", "/healthz", container.LivenessProbe},
				{"readiness", "/readyz", container.ReadinessProbe},
			} {
				if probe.probe == nil || probe.probe.HTTPGet == nil {
					t.Errorf("%s has no %s probe", name, probe.name)
					continue
				}
				if got := probe.probe.HTTPGet; got.Path != probe.path || got.Port.StrVal != "http" {
					t.Errorf("%s: %s probe asks %s on %s, want %s on http", name, probe.name, got.Path, got.Port.String(), probe.path)
				}
			}
		}
	})
}

func TestTheArchiverRunsDailyAtThreeUTC(t *testing.T) {
	eachDeployment(t, func(t *testing.T, set *Set) {
		spec := find[*batchv1.CronJob](t, set, "dlq-manager-archiver").Spec
		if spec.Schedule != "0 3 * * *" || spec.TimeZone == nil || *spec.TimeZone != "Etc/UTC" {
			t.Errorf("got %q in %v, want 03:00 in Etc/UTC", spec.Schedule, spec.TimeZone)
		}
		if spec.ConcurrencyPolicy != batchv1.ForbidConcurrent {
			t.Errorf("got %s, want Forbid", spec.ConcurrencyPolicy)
		}
		if spec.StartingDeadlineSeconds == nil {
			t.Error("no starting deadline: a hundred missed starts would stop it for good")
		}
	})
}

func TestOneImageHasThreeEntrypoints(t *testing.T) {
	want := map[string][]string{
		"api":      {"/usr/local/bin/dlq-manager-api"},
		"ingester": {"/usr/local/bin/dlq-manager-ingester"},
		"archiver": {"/usr/local/bin/dlq-manager-archiver"},
		"migrate":  {"/usr/local/bin/dlq-manager-api", "migrate", "up"},
	}
	eachDeployment(t, func(t *testing.T, set *Set) {
		images := map[string]bool{}
		for name, command := range want {
			container := podOf(t, set, name).Template.Spec.Containers[0]
			if !slices.Equal(container.Command, command) {
				t.Errorf("%s: got command %v, want %v", name, container.Command, command)
			}
			if got, _, _ := strings.Cut(container.Image, ":"); got != image {
				t.Errorf("%s: got image %s, want %s", name, got, image)
			}
			images[container.Image] = true
		}
		if len(images) != 1 {
			t.Errorf("got images %v, want one", slices.Collect(maps.Keys(images)))
		}
	})
}

// The serving programs name the file; the migration finds it from its working
// directory, where the default of --config points.
func TestEveryProgramFindsItsConfiguration(t *testing.T) {
	const file = "/etc/dlq-manager/configs/config.yaml"
	eachDeployment(t, func(t *testing.T, set *Set) {
		for _, pod := range set.Pods() {
			container := pod.Template.Spec.Containers[0]
			found := slices.Contains(container.Args, "--config="+file) || path.Join(container.WorkingDir, "configs/config.yaml") == file
			mounted := slices.ContainsFunc(container.VolumeMounts, func(mount corev1.VolumeMount) bool {
				return mount.Name == "config" && mount.MountPath == path.Dir(file)
			})
			if !found || !mounted {
				t.Errorf("%s: configuration named %t, mounted %t", pod.Name, found, mounted)
			}
		}
	})
}

func TestSecretsComeFromVault(t *testing.T) {
	const (
		database = "secret/data/k1s0/system/dlq-manager/database"
		sasl     = "secret/data/k1s0/system/kafka/sasl"
	)
	withKafka := map[string]string{"db-password": database, "kafka-username": sasl, "kafka-password": sasl}
	withoutKafka := map[string]string{"db-password": database}
	t.Parallel()
	set := render(t, loadTree(t), "base")
	for name, want := range map[string]map[string]string{"api": withKafka, "ingester": withKafka, "archiver": withoutKafka, "migrate": withoutKafka} {
		pod := podOf(t, set, name)
		if got := VaultFiles(pod); !maps.Equal(got, want) {
			t.Errorf("%s: got files %v, want %v", name, got, want)
		}
		if template := pod.Template.Annotations[annotation+"agent-inject-template-db-password"]; !strings.Contains(template, ".Data.data.password") {
			t.Errorf("%s: the template does not render key password: %s", name, template)
		}
		if got := variable(pod, "DLQ_DATABASE_PASSWORD_FILE"); got != "/vault/secrets/db-password" {
			t.Errorf("%s: got password file %q", name, got)
		}
	}
}

func variable(pod Pod, name string) string {
	for _, variable := range pod.Template.Spec.Containers[0].Env {
		if variable.Name == name {
			return variable.Value
		}
	}
	return ""
}

func TestDrainsLeaveOnePodAtLeast(t *testing.T) {
	eachDeployment(t, func(t *testing.T, set *Set) {
		for _, name := range []string{"api", "ingester"} {
			budget := find[*policyv1.PodDisruptionBudget](t, set, "dlq-manager-"+name).Spec
			if budget.MaxUnavailable == nil || budget.MaxUnavailable.IntValue() != 1 {
				t.Errorf("%s: got %v, want 1", name, budget.MaxUnavailable)
			}
		}
	})
}

func TestTrafficIsDeniedUnlessNamed(t *testing.T) {
	eachDeployment(t, func(t *testing.T, set *Set) {
		deny := find[*networkingv1.NetworkPolicy](t, set, "default-deny").Spec
		if len(deny.PodSelector.MatchLabels)+len(deny.PodSelector.MatchExpressions) != 0 || len(deny.PolicyTypes) != 2 || len(deny.Ingress)+len(deny.Egress) != 0 {
			t.Errorf("got %+v, want everything denied for all pods", deny)
		}
		kafka := find[*networkingv1.NetworkPolicy](t, set, "allow-kafka").Spec
		selector, err := metav1.LabelSelectorAsSelector(&kafka.PodSelector)
		if err != nil {
			t.Fatal(err)
		}
		for _, pod := range set.Pods() {
			serving := pod.Kind == "Deployment"
			if got := selector.Matches(labelsOf(pod)); got != serving {
				t.Errorf("%s may reach Kafka: %t, want %t", pod.Name, got, serving)
			}
		}
	})
}

func TestTheNamespaceIsRestricted(t *testing.T) {
	eachDeployment(t, func(t *testing.T, set *Set) {
		namespace := find[*corev1.Namespace](t, set, "dlq-manager")
		for _, mode := range []string{"enforce", "audit", "warn"} {
			if got := namespace.Labels["pod-security.kubernetes.io/"+mode]; got != "restricted" {
				t.Errorf("%s: got %q, want restricted", mode, got)
			}
		}
		for _, object := range set.Objects {
			named := object.(metav1.Object)
			outside := named.GetName() == "dlq-manager-database" || object == runtime.Object(namespace)
			if got := named.GetNamespace(); got != "dlq-manager" && !outside {
				t.Errorf("%T %s is in namespace %q", object, named.GetName(), got)
			}
		}
	})
}
