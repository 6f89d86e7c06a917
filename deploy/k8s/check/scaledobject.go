package check

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ScaledObject is the part of KEDA's type that the manifests use. KEDA's own
// module would bring the client of every queue it can read with it.
type ScaledObject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ScaledObjectSpec `json:"spec"`
}

// ScaledObjectSpec says what is scaled, between which numbers and by what.
type ScaledObjectSpec struct {
	ScaleTargetRef struct {
		Name string `json:"name"`
	} `json:"scaleTargetRef"`
	MinReplicaCount *int32 `json:"minReplicaCount,omitempty"`
	MaxReplicaCount *int32 `json:"maxReplicaCount,omitempty"`
	Fallback        *struct {
		FailureThreshold int32  `json:"failureThreshold"`
		Replicas         int32  `json:"replicas"`
		Behavior         string `json:"behavior,omitempty"`
	} `json:"fallback,omitempty"`
	Advanced *struct {
		HorizontalPodAutoscalerConfig *struct {
			Behavior *autoscalingv2.HorizontalPodAutoscalerBehavior `json:"behavior,omitempty"`
		} `json:"horizontalPodAutoscalerConfig,omitempty"`
	} `json:"advanced,omitempty"`
	Triggers []Trigger `json:"triggers"`
}

// Trigger is one thing to scale by.
type Trigger struct {
	Type string `json:"type"`
	// KEDA takes strings alone here, numbers in quotes.
	Metadata          map[string]string `json:"metadata"`
	AuthenticationRef *struct {
		Name string `json:"name"`
	} `json:"authenticationRef,omitempty"`
}

// DeepCopyObject returns the object itself: nothing here changes one.
func (o *ScaledObject) DeepCopyObject() runtime.Object { return o }

func addScaledObject(known *runtime.Scheme) {
	version := schema.GroupVersion{Group: "keda.sh", Version: "v1alpha1"}
	known.AddKnownTypes(version, &ScaledObject{}, &TriggerAuthentication{})
	metav1.AddToGroupVersion(known, version)
}
