package check

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

const (
	annotation   = "vault.hashicorp.com/"
	secretPrefix = annotation + "agent-inject-secret-"
	secretsDir   = "/vault/secrets/"
)

// vault asks that the agent is injected under the right role, that it finds its
// token, that every file it renders has a template for the same secret, and that
// every file a program is told to read is rendered.
func vault(pod Pod) []string {
	if !VaultInjected(pod) {
		return plainSecrets(pod)
	}
	problems := vaultAgent(pod)
	for name, secret := range VaultFiles(pod) {
		if template := pod.Template.Annotations[annotation+"agent-inject-template-"+name]; !strings.Contains(template, `"`+secret+`"`) {
			problems = append(problems, fmt.Sprintf("the template of %s does not read %s", name, secret))
		}
		if mode := pod.Template.Annotations[annotation+"agent-inject-perms-"+name]; mode != "0400" {
			problems = append(problems, fmt.Sprintf("%s has mode %q, want 0400", name, mode))
		}
	}
	for name := range pod.Template.Annotations {
		if file, ok := strings.CutPrefix(name, annotation+"agent-inject-template-"); ok && VaultFiles(pod)[file] == "" {
			problems = append(problems, fmt.Sprintf("template %s renders no secret", file))
		}
	}
	return append(problems, missingSecrets(pod)...)
}

// VaultInjected reports whether the agent is put into the pod.
func VaultInjected(pod Pod) bool { return pod.Template.Annotations[annotation+"agent-inject"] != "" }

// plainSecrets asks of a pod without the agent that nothing of the agent is left,
// and that the files it reads come from a Secret which only its group may read.
func plainSecrets(pod Pod) []string {
	var problems []string
	for name := range pod.Template.Annotations {
		if strings.HasPrefix(name, annotation) {
			problems = append(problems, fmt.Sprintf("annotation %s is left, without the agent", name))
		}
	}
	files := secretFiles(pod)
	for _, container := range pod.Template.Spec.Containers {
		for _, variable := range container.Env {
			if strings.HasSuffix(variable.Name, "_FILE") && !slices.Contains(files, variable.Value) {
				problems = append(problems, fmt.Sprintf("%s names %s, which no Secret holds", variable.Name, variable.Value))
			}
		}
	}
	if len(files) == 0 {
		problems = append(problems, "its passwords come from nowhere")
	}
	return problems
}

// secretFiles returns the paths of what Secrets hold, in the pod's first container.
func secretFiles(pod Pod) []string {
	var files []string
	for _, volume := range pod.Template.Spec.Volumes {
		if volume.Secret == nil || volume.Secret.DefaultMode == nil || *volume.Secret.DefaultMode&0o007 != 0 {
			continue
		}
		for _, mount := range pod.Template.Spec.Containers[0].VolumeMounts {
			if mount.Name != volume.Name || !mount.ReadOnly {
				continue
			}
			for _, item := range volume.Secret.Items {
				files = append(files, path.Join(mount.MountPath, item.Path))
			}
		}
	}
	return files
}

func vaultAgent(pod Pod) []string {
	var problems []string
	want := map[string]string{
		"agent-inject":           "true",
		"role":                   "system",
		"agent-run-as-same-user": "true",
		"agent-service-account-token-volume-name": "vault-token",
	}
	if pod.Once {
		// A sidecar that stays would keep the Job from ever being complete.
		want["agent-pre-populate-only"] = "true"
	}
	for name, value := range want {
		if got := pod.Template.Annotations[annotation+name]; got != value {
			problems = append(problems, fmt.Sprintf("annotation %s is %q, want %q", name, got, value))
		}
	}
	for _, volume := range pod.Template.Spec.Volumes {
		if volume.Name == "vault-token" && volume.Projected != nil {
			return problems
		}
	}
	return append(problems, "no projected token for the Vault agent")
}

func missingSecrets(pod Pod) []string {
	var problems []string
	for _, container := range pod.Template.Spec.Containers {
		for _, variable := range container.Env {
			file, ok := strings.CutPrefix(variable.Value, secretsDir)
			if ok && VaultFiles(pod)[file] == "" {
				problems = append(problems, fmt.Sprintf("%s names %s, which nothing renders", variable.Name, variable.Value))
			}
		}
	}
	return problems
}

// VaultFiles returns the files that the agent renders under /vault/secrets and
// the path in Vault that each comes from.
func VaultFiles(pod Pod) map[string]string {
	files := map[string]string{}
	for name, secret := range pod.Template.Annotations {
		if file, ok := strings.CutPrefix(name, secretPrefix); ok {
			files[file] = secret
		}
	}
	return files
}
