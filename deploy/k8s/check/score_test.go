package check

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// kubeScore names kube-score with its version. It is run as a program, because as a library it requires an older
// k8s.io/api.
const kubeScore = "github.com/zegl/kube-score/cmd/kube-score@v1.20.0"

// ignored lists the checks of kube-score that do not apply to these manifests, each with the reason.
var ignored = []string{
	// not needed, because the function images requires images that are pinned or, outside production, always pulled
	"container-image-pull-policy",
	// not needed, because another check requires a read-only root, and podDefaults requires limits of emptyDirs
	"container-ephemeral-storage-request-and-limit",
	// not needed, because topologySpreadConstraints spread the pods without preventing their start
	"deployment-has-host-podantiaffinity",
	// not needed, because the Deployment starts with as many pods as the autoscaler's minimum
	"deployment-targeted-by-hpa-does-not-have-replicas-configured",
}

func TestKubeScore(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	install := exec.CommandContext(t.Context(), "go", "install", kubeScore)
	install.Env = append(os.Environ(), "GOBIN="+folder, "GOFLAGS=")
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("go install %s: %v\n%s", kubeScore, err, out)
	}
	score := func(set *Set) (problems []string) {
		cmd := exec.CommandContext(t.Context(), filepath.Join(folder, "kube-score"), "score", "--output-format=ci", "--exit-one-on-warning",
			"--kubernetes-version=v1.30", "--ignore-test="+strings.Join(ignored, ","), "-")
		cmd.Stdin = bytes.NewReader(set.text.Bytes())
		out, err := cmd.CombinedOutput()
		for line := range strings.Lines(string(out)) {
			// The pods of dlq-manager-database run in another namespace and are not part of this product.
			ours := !strings.Contains(line, "] dlq-manager-database/")
			if err != nil && ours && !strings.HasPrefix(line, "[OK]") && !strings.HasPrefix(line, "[SKIPPED]") {
				problems = append(problems, strings.TrimSpace(line))
			}
		}
		return problems
	}
	for name, set := range kustomizations(t) {
		for _, problem := range score(set) {
			t.Errorf("%s: %s", name, problem)
		}
	}
	for _, m := range []mistake{
		{"a writable root", "base/migrate.yaml", "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "batch/v1/Job: (migrate) The pod has a container with a writable root filesystem"},
		{"a policy of no pod", "base/network-policies.yaml", "      app.kubernetes.io/component: api\n  policyTypes: [Ingress]", "      app.kubernetes.io/component: web\n  policyTypes: [Ingress]", "NetworkPolicy: The NetworkPolicys selector doesn't match any pods"},
		{"a Service without pods", "base/api.yaml", "  selector:\n    app.kubernetes.io/name: dlq-manager\n    app.kubernetes.io/component: api", "  selector:\n    app.kubernetes.io/component: web", "v1/Service: The services selector does not match any pods"},
		{"no limit of memory", "base/api.yaml", "              memory: 1Gi\n", "", "apps/v1/Deployment: (api) Memory limit is not set"},
	} {
		tree, dir := m.in(t)
		if got := score(render(t, tree, dir)); !strings.Contains(strings.Join(got, "\n"), m.want) {
			t.Errorf("%s: got %q, want %q", m.name, got, m.want)
		}
	}
}
