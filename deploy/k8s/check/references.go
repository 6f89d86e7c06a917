package check

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// brokenReferences finds names that nothing in the set answers to.
func brokenReferences(set *Set) []string {
	var problems []string
	for _, pod := range set.Pods() {
		if _, ok := Find[*corev1.ServiceAccount](set, pod.Template.Spec.ServiceAccountName); !ok {
			problems = append(problems, fmt.Sprintf("%s %s: no service account %q", pod.Kind, pod.Name, pod.Template.Spec.ServiceAccountName))
		}
		for _, volume := range pod.Template.Spec.Volumes {
			if volume.ConfigMap == nil {
				continue
			}
			if _, ok := Find[*corev1.ConfigMap](set, volume.ConfigMap.Name); !ok {
				problems = append(problems, fmt.Sprintf("%s %s: no config map %q", pod.Kind, pod.Name, volume.ConfigMap.Name))
			}
		}
	}
	for _, scaler := range All[*autoscalingv2.HorizontalPodAutoscaler](set) {
		if _, ok := Find[*appsv1.Deployment](set, scaler.Spec.ScaleTargetRef.Name); !ok {
			problems = append(problems, fmt.Sprintf("HorizontalPodAutoscaler %s: no deployment %q", scaler.Name, scaler.Spec.ScaleTargetRef.Name))
		}
	}
	return problems
}

func labelsOf(pod Pod) labels.Set { return labels.Set(pod.Template.Labels) }

// brokenSelectors finds Deployments, Services and disruption budgets that do not
// select the pods of exactly one workload.
func brokenSelectors(set *Set) []string {
	var problems []string
	count := func(kind, name string, selector labels.Selector, err error) {
		matched := 0
		for _, pod := range set.Pods() {
			if err == nil && selector.Matches(labelsOf(pod)) {
				matched++
			}
		}
		if matched != 1 {
			problems = append(problems, fmt.Sprintf("%s %s selects the pods of %d workloads, want 1", kind, name, matched))
		}
	}
	for _, deployment := range All[*appsv1.Deployment](set) {
		selector, err := metav1.LabelSelectorAsSelector(deployment.Spec.Selector)
		count("Deployment", deployment.Name, selector, err)
	}
	for _, service := range All[*corev1.Service](set) {
		count("Service", service.Name, labels.SelectorFromSet(service.Spec.Selector), nil)
	}
	for _, budget := range All[*policyv1.PodDisruptionBudget](set) {
		selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
		count("PodDisruptionBudget", budget.Name, selector, err)
	}
	return problems
}
