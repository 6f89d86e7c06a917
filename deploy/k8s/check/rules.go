package check

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	psaapi "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

const (
	drainSeconds = 25 // the programs drain and exit within this time
	runAsUser    = 65532
)

// Problems reports everything that is wrong with a set, whatever it deploys: an
// empty answer means that it may be applied.
func Problems(set *Set) []string {
	var problems []string
	for _, pod := range set.Pods() {
		for _, rule := range podRules {
			for _, problem := range rule(pod) {
				problems = append(problems, fmt.Sprintf("%s %s: %s", pod.Kind, pod.Name, problem))
			}
		}
	}
	for _, rule := range setRules {
		problems = append(problems, rule(set)...)
	}
	return problems
}

var setRules = []func(*Set) []string{
	brokenReferences, openProduction, brokenSelectors, workloads, network, movingProduction, silentAlerts, brokenDashboards,
	monitored, triggers, unansweredServices,
}

var podRules = []func(Pod) []string{
	podSecurity, serviceLinks, users, rootFilesystems, resources, images, grace, tokens, vault,
}

func podSecurity(pod Pod) []string {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return []string{err.Error()}
	}
	level := psaapi.LevelVersion{Level: psaapi.LevelRestricted, Version: psaapi.LatestVersion()}
	var problems []string
	for _, result := range evaluator.EvaluatePod(level, &pod.Template.ObjectMeta, &pod.Template.Spec) {
		if !result.Allowed {
			problems = append(problems, result.ForbiddenReason+": "+result.ForbiddenDetail)
		}
	}
	return problems
}

// serviceLinks guards the configuration: a Service named dlq-server would inject
// DLQ_SERVER_PORT, which is a setting.
func serviceLinks(pod Pod) []string {
	if links := pod.Template.Spec.EnableServiceLinks; links == nil || *links {
		return []string{"enableServiceLinks is not false"}
	}
	return nil
}

func users(pod Pod) []string {
	var problems []string
	inPod := pod.Template.Spec.SecurityContext
	if inPod == nil || inPod.RunAsUser == nil || *inPod.RunAsUser != runAsUser || inPod.RunAsNonRoot == nil || !*inPod.RunAsNonRoot {
		problems = append(problems, "the pod does not run as user 65532")
	}
	if inPod == nil || inPod.SeccompProfile == nil || inPod.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		problems = append(problems, "the pod has no seccomp profile for injected containers")
	}
	for _, container := range pod.Template.Spec.Containers {
		// The injected agent copies its user from the container, not the pod.
		own := container.SecurityContext
		if own == nil || own.RunAsUser == nil || *own.RunAsUser != runAsUser {
			problems = append(problems, fmt.Sprintf("container %s does not name user 65532", container.Name))
		}
	}
	return problems
}

func rootFilesystems(pod Pod) []string {
	var problems []string
	for _, container := range pod.Template.Spec.Containers {
		own := container.SecurityContext
		if own == nil || own.ReadOnlyRootFilesystem == nil || !*own.ReadOnlyRootFilesystem {
			problems = append(problems, fmt.Sprintf("container %s can write to its root filesystem", container.Name))
		}
	}
	for _, volume := range pod.Template.Spec.Volumes {
		if volume.EmptyDir != nil && volume.EmptyDir.SizeLimit == nil {
			problems = append(problems, fmt.Sprintf("volume %s has no size limit", volume.Name))
		}
	}
	return problems
}

func resources(pod Pod) []string {
	var problems []string
	for _, container := range pod.Template.Spec.Containers {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			request, limit := container.Resources.Requests[name], container.Resources.Limits[name]
			if request.IsZero() || limit.IsZero() || request.Cmp(limit) > 0 {
				problems = append(problems, fmt.Sprintf("container %s: %s requested %s, limited to %s", container.Name, name, &request, &limit))
			}
		}
	}
	return problems
}

// pinned is a tag with a version of two parts at least, or a digest.
var pinned = regexp.MustCompile(`(:v?[0-9]+\.[0-9]+[0-9A-Za-z._-]*|@sha256:[0-9a-f]{64})$`)

// images must be pinned, or pulled anew for every pod where a tag is meant to move.
func images(pod Pod) []string {
	var problems []string
	for _, container := range pod.Template.Spec.Containers {
		moves := container.ImagePullPolicy == corev1.PullAlways && !strings.HasSuffix(container.Image, ":latest")
		if !pinned.MatchString(container.Image) && !moves {
			problems = append(problems, fmt.Sprintf("image %s is not pinned", container.Image))
		}
	}
	if agent, injected := pod.Template.Annotations[annotation+"agent-image"]; VaultInjected(pod) && (!injected || !pinned.MatchString(agent)) {
		problems = append(problems, fmt.Sprintf("image %q of the Vault agent is not pinned", agent))
	}
	return problems
}

// movingProduction finds tags that move in a production, where a pod that restarts
// must not be another release.
func movingProduction(set *Set) []string {
	if !isProduction(set) {
		return nil
	}
	var problems []string
	for _, pod := range set.Pods() {
		for _, container := range pod.Template.Spec.Containers {
			if !pinned.MatchString(container.Image) {
				problems = append(problems, fmt.Sprintf("%s %s: image %s moves in production", pod.Kind, pod.Name, container.Image))
			}
		}
	}
	return problems
}

// grace leaves the programs their time to drain after the pre-stop hook, which
// the same clock counts.
func grace(pod Pod) []string {
	var problems []string
	allowed := pod.Template.Spec.TerminationGracePeriodSeconds
	for _, container := range pod.Template.Spec.Containers {
		needed := int64(drainSeconds)
		if hook := container.Lifecycle; hook != nil && hook.PreStop != nil {
			if hook.PreStop.Sleep == nil {
				problems = append(problems, "the pre-stop hook wants a shell that the image does not have")
				continue
			}
			needed += hook.PreStop.Sleep.Seconds
		}
		if allowed == nil || *allowed <= needed {
			problems = append(problems, fmt.Sprintf("the grace period is not above %d seconds", needed))
		}
	}
	return problems
}

func tokens(pod Pod) []string {
	if mounted := pod.Template.Spec.AutomountServiceAccountToken; mounted == nil || *mounted {
		return []string{"a token for the Kubernetes API is mounted"}
	}
	return nil
}
