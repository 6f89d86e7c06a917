package check

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// TriggerAuthentication is the part of KEDA's type that the manifests use.
type TriggerAuthentication struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              TriggerAuthenticationSpec `json:"spec"`
}

// TriggerAuthenticationSpec says where a scaler's credentials come from.
type TriggerAuthenticationSpec struct {
	SecretTargetRef []SecretParameter `json:"secretTargetRef,omitempty"`
}

// SecretParameter is a key of a Secret that becomes a parameter of the scaler.
type SecretParameter struct {
	Parameter string `json:"parameter"`
	Name      string `json:"name"`
	Key       string `json:"key"`
}

// DeepCopyObject returns the object itself: nothing here changes one.
func (a *TriggerAuthentication) DeepCopyObject() runtime.Object { return a }

// What KEDA's Kafka scaler takes.
var (
	saslModes       = []string{"", "none", "plaintext", "scram_sha256", "scram_sha512", "gssapi"}
	kafkaParameters = []string{"sasl", "tls", "username", "password", "ca", "cert", "key", "keyPassword"}
)

// secretKeys are those about Kafka of the Secret of the component plain-secret, and the
// certificate of an authority of one's own.
var secretKeys = []string{"kafka-username", "kafka-password", "kafka-ca"}

// triggers finds programs and scalers that Kafka would turn away: without credentials,
// with those of nobody, or with a password that is sent in the clear; and scalers that ask
// another Kafka than the program which they scale.
func triggers(set *Set) []string {
	var problems []string
	for _, pod := range set.Pods() {
		problems = append(problems, unsigned(set, pod)...)
	}
	used := map[string]bool{}
	for _, scaler := range All[*ScaledObject](set) {
		for _, trigger := range scaler.Spec.Triggers {
			if trigger.AuthenticationRef != nil {
				used[trigger.AuthenticationRef.Name] = true
			}
			said := triggerProblems(set, trigger)
			for _, pod := range set.Pods() {
				if pod.Name == scaler.Spec.ScaleTargetRef.Name && trigger.Type == "kafka" {
					said = append(said, strangers(set, trigger, pod)...)
				}
			}
			for _, problem := range said {
				problems = append(problems, fmt.Sprintf("ScaledObject %s: %s", scaler.Name, problem))
			}
		}
	}
	for _, auth := range All[*TriggerAuthentication](set) {
		if !used[auth.Name] {
			problems = append(problems, fmt.Sprintf("TriggerAuthentication %s is used by no scaler", auth.Name))
		}
		for _, ref := range auth.Spec.SecretTargetRef {
			if !slices.Contains(kafkaParameters, ref.Parameter) {
				problems = append(problems, fmt.Sprintf("TriggerAuthentication %s: %q is no parameter of the Kafka scaler", auth.Name, ref.Parameter))
			}
			if ref.Name != "dlq-manager-secrets" || !slices.Contains(secretKeys, ref.Key) {
				problems = append(problems, fmt.Sprintf("TriggerAuthentication %s: nobody makes key %q of Secret %q", auth.Name, ref.Key, ref.Name))
			}
		}
	}
	return problems
}

func triggerProblems(set *Set, trigger Trigger) []string {
	if trigger.Type != "kafka" {
		return nil
	}
	var problems []string
	sasl, tls := trigger.Metadata["sasl"], trigger.Metadata["tls"]
	if !slices.Contains(saslModes, sasl) {
		problems = append(problems, fmt.Sprintf("sasl is %q, want one of %q", sasl, saslModes))
	}
	if tls != "" && tls != "enable" && tls != "disable" {
		problems = append(problems, fmt.Sprintf("tls is %q, want enable or disable", tls))
	}
	if sasl != "" && sasl != "none" {
		if sasl == "plaintext" && tls != "enable" {
			problems = append(problems, "its password is sent in the clear")
		}
		problems = append(problems, withoutCredentials(set, trigger)...)
	}
	encrypted := strings.HasSuffix(trigger.Metadata["bootstrapServers"], fmt.Sprint(":", kafkaTLSPort))
	if encrypted != (tls == "enable") {
		problems = append(problems, fmt.Sprintf("tls is %q on %s", tls, trigger.Metadata["bootstrapServers"]))
	}
	return problems
}

func withoutCredentials(set *Set, trigger Trigger) []string {
	if trigger.AuthenticationRef == nil {
		return []string{"it says no user"}
	}
	name := trigger.AuthenticationRef.Name
	auth, ok := Find[*TriggerAuthentication](set, name)
	if !ok {
		return []string{fmt.Sprintf("no TriggerAuthentication %q", name)}
	}
	var problems []string
	for _, want := range []string{"username", "password"} {
		if !slices.ContainsFunc(auth.Spec.SecretTargetRef, func(p SecretParameter) bool { return p.Parameter == want }) {
			problems = append(problems, fmt.Sprintf("TriggerAuthentication %s has no %s", name, want))
		}
	}
	return problems
}
