package check

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
)

// workloads finds what works on the day it is applied and not in the night when a
// node goes, the load grows or a run fails.
func workloads(set *Set) []string {
	var problems []string
	for _, deployment := range All[*appsv1.Deployment](set) {
		for _, problem := range servingProblems(set, deployment) {
			problems = append(problems, fmt.Sprintf("Deployment %s: %s", deployment.Name, problem))
		}
	}
	for _, job := range All[*batchv1.CronJob](set) {
		for _, problem := range cronProblems(job.Spec) {
			problems = append(problems, fmt.Sprintf("CronJob %s: %s", job.Name, problem))
		}
	}
	for _, job := range All[*batchv1.Job](set) {
		for _, problem := range jobProblems(job.Spec) {
			problems = append(problems, fmt.Sprintf("Job %s: %s", job.Name, problem))
		}
		problems = append(problems, unversioned(job)...)
	}
	return append(problems, scaling(set)...)
}

func servingProblems(set *Set, deployment *appsv1.Deployment) []string {
	var problems []string
	spec := deployment.Spec.Template.Spec
	for _, container := range spec.Containers {
		problems = append(problems, probeProblems(container)...)
	}
	topologies := map[string]bool{}
	for _, constraint := range spec.TopologySpreadConstraints {
		topologies[constraint.TopologyKey] = constraint.WhenUnsatisfiable == corev1.ScheduleAnyway
	}
	for _, key := range []string{corev1.LabelHostname, corev1.LabelTopologyZone} {
		if !topologies[key] {
			problems = append(problems, "its pods are not spread by "+key+", or wait where they cannot be")
		}
	}
	budget, ok := Find[*policyv1.PodDisruptionBudget](set, deployment.Name)
	switch {
	case !ok:
		problems = append(problems, "no disruption budget of its name")
	case budget.Spec.MaxUnavailable == nil || budget.Spec.MaxUnavailable.IntValue() < 1:
		problems = append(problems, "its disruption budget keeps nodes from being drained")
	case budget.Spec.UnhealthyPodEvictionPolicy == nil || *budget.Spec.UnhealthyPodEvictionPolicy != policyv1.AlwaysAllow:
		problems = append(problems, "a pod that is never ready holds up the drain of its node")
	}
	return problems
}

// probeProblems: liveness must ask no dependency, or a database that is down
// restarts everything that waits for it.
func probeProblems(container corev1.Container) []string {
	var problems []string
	for _, probe := range []struct {
		name, path string
		probe      *corev1.Probe
	}{
		{"startup", "/healthz", container.StartupProbe},
		{"liveness", "/healthz", container.LivenessProbe},
		{"readiness", "/readyz", container.ReadinessProbe},
	} {
		if probe.probe == nil || probe.probe.HTTPGet == nil || probe.probe.HTTPGet.Path != probe.path {
			problems = append(problems, fmt.Sprintf("container %s: the %s probe does not ask %s", container.Name, probe.name, probe.path))
		}
	}
	return problems
}

func cronProblems(spec batchv1.CronJobSpec) []string {
	var problems []string
	if spec.ConcurrencyPolicy != batchv1.ForbidConcurrent {
		problems = append(problems, "two runs may overlap")
	}
	if spec.StartingDeadlineSeconds == nil {
		problems = append(problems, "a hundred missed starts stop it for good")
	}
	if spec.TimeZone == nil {
		problems = append(problems, "its schedule has no time zone")
	}
	return append(problems, jobProblems(spec.JobTemplate.Spec)...)
}

func jobProblems(spec batchv1.JobSpec) []string {
	var problems []string
	if spec.ActiveDeadlineSeconds == nil || spec.BackoffLimit == nil || spec.TTLSecondsAfterFinished == nil {
		problems = append(problems, "it has no deadline, no limit of retries, or is never removed")
	}
	return problems
}

// unversioned finds a migration whose name is not that of its release: the Job of
// the last one would be in the way.
func unversioned(job *batchv1.Job) []string {
	if job.Labels["app.kubernetes.io/component"] != "migrate" {
		return nil
	}
	image := job.Spec.Template.Spec.Containers[0].Image
	image, _, _ = strings.Cut(image, "@")
	tag := strings.NewReplacer(".", "-", "_", "-", "+", "-").Replace(strings.ToLower(image[strings.LastIndex(image, ":")+1:]))
	if want := "dlq-manager-migrate-" + tag; job.Name != want {
		return []string{fmt.Sprintf("Job %s: the name does not tell its release, want %s", job.Name, want)}
	}
	return nil
}

// scaling finds scalers that measure the wrong thing or fight over a number.
func scaling(set *Set) []string {
	var problems []string
	owners := map[string]int{}
	for _, scaler := range All[*autoscalingv2.HorizontalPodAutoscaler](set) {
		owners[scaler.Spec.ScaleTargetRef.Name]++
		for _, metric := range scaler.Spec.Metrics {
			if metric.Type != autoscalingv2.ContainerResourceMetricSourceType {
				problems = append(problems, fmt.Sprintf("HorizontalPodAutoscaler %s: a %s metric counts sidecars in", scaler.Name, metric.Type))
			}
		}
	}
	for _, scaler := range All[*ScaledObject](set) {
		target := scaler.Spec.ScaleTargetRef.Name
		owners[target]++
		if scaler.Spec.MinReplicaCount == nil || *scaler.Spec.MinReplicaCount < 1 {
			problems = append(problems, fmt.Sprintf("ScaledObject %s: from zero nothing would wake it", scaler.Name))
		}
		deployment, ok := Find[*appsv1.Deployment](set, target)
		if !ok || deployment.Spec.Replicas != nil {
			problems = append(problems, fmt.Sprintf("ScaledObject %s: no deployment %q, or one that says its replicas itself", scaler.Name, target))
		}
	}
	for target, count := range owners {
		if count > 1 {
			problems = append(problems, fmt.Sprintf("Deployment %s: %d scalers fight over it", target, count))
		}
	}
	return problems
}
