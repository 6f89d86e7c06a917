package check

import (
	"strings"
	"testing"
)

// Each row breaks one manifest the way somebody might, and says what must be
// heard about it.
func TestBrokenManifestsAreFound(t *testing.T) {
	t.Parallel()
	for _, broken := range []struct {
		name, file, old, new, want string
	}{
		{"a misspelt field", "api.yaml", "readinessProbe:", "readynessProbe:", `unknown field "spec.template.spec.containers[0].readynessProbe"`},
		{"service links", "ingester.yaml", "enableServiceLinks: false", "enableServiceLinks: true", "Deployment dlq-manager-ingester: enableServiceLinks is not false"},
		{"a root user", "archiver.yaml", "runAsNonRoot: true", "runAsNonRoot: false", "CronJob dlq-manager-archiver: runAsNonRoot"},
		{"a writable root", "migrate.yaml", "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "Job dlq-manager-migrate: container migrate can write"},
		{"kept capabilities", "api.yaml", "drop: [ALL]", "drop: [NET_RAW]", "unrestricted capabilities"},
		{"no seccomp", "api.yaml", "type: RuntimeDefault", "type: Unconfined", "seccompProfile"},
		{"a grace too short", "api.yaml", "terminationGracePeriodSeconds: 45", "terminationGracePeriodSeconds: 35", "the grace period is not above 35 seconds"},
		{"an unbounded directory", "api.yaml", "sizeLimit: 64Mi", "medium: Memory", "volume tmp has no size limit"},
		{"a moving tag", "api.yaml", "dlq-manager:0.1.0", "dlq-manager:latest", "is not pinned"},
		{"a Job that never ends", "migrate.yaml", `agent-pre-populate-only: "true"`, `agent-pre-populate-only: "false"`, `annotation agent-pre-populate-only is "false"`},
		{"another Vault role", "api.yaml", "role: system", "role: admin", `annotation role is "admin"`},
		{"a secret nobody renders", "api.yaml", "value: /vault/secrets/db-password", "value: /vault/secrets/password", "which nothing renders"},
		{"a template for another secret", "api.yaml", `{{- with secret "secret/data/k1s0/system/kafka/sasl" -}}`, `{{- with secret "secret/data/other" -}}`, "does not read secret/data/k1s0/system/kafka/sasl"},
		{"a mounted API token", "api.yaml", "automountServiceAccountToken: false", "automountServiceAccountToken: true", "a token for the Kubernetes API is mounted"},
		{"a production that is open", "config.yaml", "mode: oidc", "mode: none", "auth.mode is none in production"},
		{"a production that does not say", "config.yaml", "auth:\n  mode: oidc", "authentication:\n  mode: oidc", "auth.mode is none in production"},
		{"a production opened by a variable", "api.yaml", "          env:\n", "          env:\n            - name: DLQ_AUTH_MODE\n              value: none\n", "Deployment dlq-manager-api: DLQ_AUTH_MODE is none in production"},
		{"an account that is missing", "ingester.yaml", "serviceAccountName: dlq-manager-ingester", "serviceAccountName: dlq-ingester", `no service account "dlq-ingester"`},
		{"a Service without pods", "api.yaml", "  selector:\n    app.kubernetes.io/name: dlq-manager\n    app.kubernetes.io/component: api", "  selector:\n    app.kubernetes.io/component: web", "Service dlq-manager selects the pods of 0 workloads"},
	} {
		t.Run(broken.name, func(t *testing.T) {
			t.Parallel()
			if got := hear(t, broken.file, broken.old, broken.new); !strings.Contains(got, broken.want) {
				t.Errorf("got %q, want %q", got, broken.want)
			}
		})
	}
}

// hear changes the base in memory and returns everything that is said about it.
func hear(t *testing.T, file, old, changed string) string {
	t.Helper()
	tree := loadTree(t)
	content, err := tree.ReadFile("/base/" + file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(content), old) {
		t.Fatalf("%s does not contain %q", file, old)
	}
	if err := tree.WriteFile("/base/"+file, []byte(strings.ReplaceAll(string(content), old, changed))); err != nil {
		t.Fatal(err)
	}
	set, err := Render(tree, "base")
	if err != nil {
		return err.Error()
	}
	return strings.Join(Problems(set), "\n")
}
