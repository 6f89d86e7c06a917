package docs_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// TestPromQLIsPromQL: each line of the runbook's promql blocks is a valid expression for Prometheus's own parser,
// if `make rules` has installed promtool. The variable PROMTOOL names another promtool.
func TestPromQLIsPromQL(t *testing.T) {
	t.Parallel()
	var rules strings.Builder
	rules.WriteString("groups:\n- name: runbook\n  rules:\n")
	expressions := 0
	for _, block := range regexp.MustCompile("(?ms)^```promql\n(.*?)^```$").FindAllStringSubmatch(read(t, "runbook.md"), -1) {
		for line := range strings.Lines(block[1]) {
			expressions++
			fmt.Fprintf(&rules, "  - record: runbook:%d\n    expr: |-\n      %s\n", expressions, strings.TrimSpace(line))
		}
	}
	if expressions < 30 {
		t.Errorf("got %d expressions, want those of each entry", expressions)
	}
	tool := promtool(t)
	if tool == "" {
		t.Log("nothing was parsed: make rules does")
		return
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	check.NoError(t, os.WriteFile(file, []byte(rules.String()), 0o600))
	if out, err := exec.CommandContext(t.Context(), tool, "check", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// promtool returns the path of the program promtool; "" when it is not installed.
func promtool(t *testing.T) string {
	t.Helper()
	if named := os.Getenv("PROMTOOL"); named != "" {
		return named
	}
	found, err := filepath.Glob(filepath.Join(root, "bin/tools/promtool-v*"))
	if err != nil || len(found) == 0 {
		return ""
	}
	return found[0]
}
