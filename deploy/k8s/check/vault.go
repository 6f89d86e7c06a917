package check

import (
	"fmt"
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
