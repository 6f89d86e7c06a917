package check

import (
	"fmt"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
)

// Set is what one kustomization deploys, in the order it was rendered.
type Set struct {
	Objects []runtime.Object
}

// Pod is the template of one workload's pods, with the workload it belongs to.
// Once says that the pods are meant to end by themselves.
type Pod struct {
	Kind, Name string
	Once       bool
	Template   *corev1.PodTemplateSpec
}

// Add decodes one manifest and keeps it. An unknown or repeated field, and a
// kind that nobody registered, is an error.
func (s *Set) Add(manifest []byte) error {
	codecs := serializer.NewCodecFactory(scheme(), serializer.EnableStrict)
	object, _, err := codecs.UniversalDeserializer().Decode(manifest, nil, nil)
	if err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	s.Objects = append(s.Objects, object)
	return nil
}

// Pods returns the pod templates of all workloads.
func (s *Set) Pods() []Pod {
	var pods []Pod
	for _, object := range s.Objects {
		switch workload := object.(type) {
		case *appsv1.Deployment:
			pods = append(pods, Pod{"Deployment", workload.Name, false, &workload.Spec.Template})
		case *batchv1.Job:
			pods = append(pods, Pod{"Job", workload.Name, true, &workload.Spec.Template})
		case *batchv1.CronJob:
			pods = append(pods, Pod{"CronJob", workload.Name, true, &workload.Spec.JobTemplate.Spec.Template})
		}
	}
	return pods
}

// All returns the objects of one type.
func All[T runtime.Object](s *Set) []T {
	var found []T
	for _, object := range s.Objects {
		if typed, ok := object.(T); ok {
			found = append(found, typed)
		}
	}
	return found
}

// Find returns the object of one type and name, and whether there is one.
func Find[T interface {
	runtime.Object
	metav1.Object
}](s *Set, name string) (T, bool) {
	for _, object := range All[T](s) {
		if object.GetName() == name {
			return object, true
		}
	}
	var none T
	return none, false
}

func scheme() *runtime.Scheme {
	known := runtime.NewScheme()
	utilruntime.Must(clientscheme.AddToScheme(known))
	utilruntime.Must(monitoringv1.AddToScheme(known))
	addScaledObject(known)
	return known
}
