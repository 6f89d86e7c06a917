package check

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	psaapi "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// Problems returns what the rules of this package find wrong with a set.
func Problems(set *Set) (problems []string) {
	for _, pod := range set.Pods() {
		for _, rule := range []func(*Set, Pod) []string{podSecurity, podDefaults, images, secrets} {
			for _, problem := range rule(set, pod) {
				problems = append(problems, fmt.Sprintf("%s %s: %s", pod.Kind, pod.Name, problem))
			}
		}
	}
	for _, rule := range []func(*Set) []string{network, scalers} {
		problems = append(problems, rule(set)...)
	}
	return problems
}

func podSecurity(_ *Set, pod Pod) (problems []string) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return []string{err.Error()}
	}
	level := psaapi.LevelVersion{Level: psaapi.LevelRestricted, Version: psaapi.LatestVersion()}
	for _, result := range evaluator.EvaluatePod(level, &pod.Template.ObjectMeta, &pod.Template.Spec) {
		if !result.Allowed {
			problems = append(problems, result.ForbiddenReason+": "+result.ForbiddenDetail)
		}
	}
	return problems
}

// drainSeconds is the longest time, in seconds, that a program needs from SIGTERM until it has exited.
const drainSeconds = 25

func podDefaults(_ *Set, pod Pod) (problems []string) {
	spec := pod.Template.Spec
	if spec.EnableServiceLinks == nil || *spec.EnableServiceLinks {
		problems = append(problems, "service links inject variables that are read as settings")
	}
	if spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken {
		problems = append(problems, "a token for the Kubernetes API is mounted")
	}
	for _, volume := range spec.Volumes {
		if volume.EmptyDir != nil && volume.EmptyDir.SizeLimit == nil {
			problems = append(problems, fmt.Sprintf("volume %s has no size limit", volume.Name))
		}
	}
	needed := int64(drainSeconds)
	if hook := pod.Container().Lifecycle; hook != nil && hook.PreStop != nil {
		if hook.PreStop.Sleep == nil {
			return append(problems, "the pre-stop hook needs a shell, and the image has none")
		}
		needed += hook.PreStop.Sleep.Seconds
	}
	if grace := spec.TerminationGracePeriodSeconds; grace == nil || *grace <= needed {
		problems = append(problems, fmt.Sprintf("the grace period is not above %d seconds", needed))
	}
	return problems
}

// pinned matches a tag with a version of at least two parts, or a digest.
var pinned = regexp.MustCompile(`(:v?[0-9]+\.[0-9]+[0-9A-Za-z._-]*|@sha256:[0-9a-f]{64})$`)

// images reports an image of the program or of the Vault agent that is not pinned. Outside production, it accepts such
// an image of the program if every pod pulls the image again when it starts. It also reports auth.mode none in
// production.
func images(set *Set, pod Pod) (problems []string) {
	container, production := pod.Container(), set.Setting(pod, "app.environment") == "production"
	moves := container.ImagePullPolicy == corev1.PullAlways && !production
	if !pinned.MatchString(container.Image) && !moves {
		problems = append(problems, fmt.Sprintf("image %s is not pinned", container.Image))
	}
	if agent := pod.Template.Annotations[vault+"agent-image"]; vaultInjected(pod) && !pinned.MatchString(agent) {
		problems = append(problems, fmt.Sprintf("image %q of the Vault agent is not pinned", agent))
	}
	if mode := set.Setting(pod, "auth.mode"); production && (mode == "" || mode == "none") {
		problems = append(problems, "auth.mode is none in production")
	}
	return problems
}

const vault = "vault.hashicorp.com/"

func vaultInjected(pod Pod) bool { return pod.Template.Annotations[vault+"agent-inject"] == "true" }

// vaultFiles returns the files that the Vault agent renders below /vault/secrets, with their paths
// in Vault.
func vaultFiles(pod Pod) map[string]string {
	files := map[string]string{}
	for name, secret := range pod.Template.Annotations {
		if file, ok := strings.CutPrefix(name, vault+"agent-inject-secret-"); ok {
			files[file] = secret
		}
	}
	return files
}

// secrets reports wrong annotations of the Vault agent, and variables NAME_FILE whose file neither the Vault agent
// renders nor a Secret holds.
func secrets(_ *Set, pod Pod) (problems []string) {
	var files []string
	for file, secret := range vaultFiles(pod) {
		files = append(files, "/vault/secrets/"+file)
		if !strings.Contains(pod.Template.Annotations[vault+"agent-inject-template-"+file], `"`+secret+`"`) {
			problems = append(problems, fmt.Sprintf("the template of %s does not read %s", file, secret))
		}
		if pod.Template.Annotations[vault+"agent-inject-perms-"+file] != "0400" {
			problems = append(problems, fmt.Sprintf("%s has not mode 0400", file))
		}
	}
	if vaultInjected(pod) && pod.Once && pod.Template.Annotations[vault+"agent-pre-populate-only"] != "true" {
		problems = append(problems, "the agent keeps the Job from ending")
	}
	for _, volume := range pod.Template.Spec.Volumes {
		if volume.Secret == nil || volume.Secret.DefaultMode == nil || *volume.Secret.DefaultMode&0o007 != 0 {
			continue
		}
		for _, mount := range pod.Container().VolumeMounts {
			for _, item := range volume.Secret.Items {
				if mount.Name == volume.Name && mount.ReadOnly {
					files = append(files, path.Join(mount.MountPath, item.Path))
				}
			}
		}
	}
	for _, variable := range pod.Container().Env {
		if strings.HasSuffix(variable.Name, "_FILE") && !slices.Contains(files, variable.Value) {
			problems = append(problems, fmt.Sprintf("%s is %s, which no Secret holds and Vault does not render", variable.Name, variable.Value))
		}
	}
	return problems
}

// kedaMechanisms maps values of kafka.sasl.mechanism to KEDA's names.
var kedaMechanisms = map[string]string{
	"": "", "PLAIN": "plaintext", "SCRAM-SHA-256": "scram_sha256", "SCRAM-SHA-512": "scram_sha512",
	"OAUTHBEARER": "oauthbearer", "AWS_MSK_IAM": "oauthbearer",
}

// scalers reports a ScaledObject whose brokers, consumer group or authentication differ from those of the program that
// it scales: such a ScaledObject would measure no lag, or the lag of another consumer group. It also reports a
// TriggerAuthentication that is missing or reads a variable that the pod does not have.
func scalers(set *Set) (problems []string) {
	for _, scaler := range All[*unstructured.Unstructured](set) {
		target, _, _ := unstructured.NestedString(scaler.Object, "spec", "scaleTargetRef", "name")
		triggers, _, _ := unstructured.NestedSlice(scaler.Object, "spec", "triggers")
		i := slices.IndexFunc(set.Pods(), func(pod Pod) bool { return pod.Name == target })
		if i < 0 || len(triggers) != 1 {
			continue
		}
		pod, trigger := set.Pods()[i], triggers[0].(map[string]any)
		want := map[string]string{
			"bootstrapServers": set.Setting(pod, "kafka.brokers"), "consumerGroup": set.Setting(pod, "kafka.consumer_group"),
			"sasl": kedaMechanisms[set.Setting(pod, "kafka.sasl.mechanism")], "tls": "",
			"saslTokenProvider": "", "awsRegion": set.Setting(pod, "kafka.sasl.aws_region"),
		}
		if want["awsRegion"] != "" {
			want["saslTokenProvider"] = "aws_msk_iam"
		}
		if strings.HasSuffix(set.Setting(pod, "kafka.security_protocol"), "SSL") {
			want["tls"] = "enable"
		}
		for key, value := range want {
			if got, _, _ := unstructured.NestedString(trigger, "metadata", key); got != value {
				problems = append(problems, fmt.Sprintf("ScaledObject %s: %s is %q, and %s has %q", scaler.GetName(), key, got, pod.Name, value))
			}
		}
		name, _, _ := unstructured.NestedString(trigger, "authenticationRef", "name")
		all := All[*unstructured.Unstructured](set)
		at := slices.IndexFunc(all, func(o *unstructured.Unstructured) bool { return o.GetName() == name })
		switch {
		case at >= 0:
			problems = append(problems, missingVariables(all[at], pod)...)
		case want["sasl"] != "":
			problems = append(problems, fmt.Sprintf("ScaledObject %s: no TriggerAuthentication %q", scaler.GetName(), name))
		}
	}
	return problems
}

// missingVariables reports the variables that a TriggerAuthentication reads and the pod's container does not have.
func missingVariables(auth *unstructured.Unstructured, pod Pod) (problems []string) {
	variables, _, _ := unstructured.NestedSlice(auth.Object, "spec", "env")
	for _, variable := range variables {
		name, _, _ := unstructured.NestedString(variable.(map[string]any), "name")
		if !slices.ContainsFunc(pod.Container().Env, func(e corev1.EnvVar) bool { return e.Name == name }) {
			problems = append(problems, fmt.Sprintf("TriggerAuthentication %s: %s has no variable %s", auth.GetName(), pod.Name, name))
		}
	}
	return problems
}
