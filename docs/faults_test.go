package docs_test

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// gate lists the faults that every run of `make test` must inject.
var gate = []string{"F1", "F2", "F7", "F10", "F16", "F17", "F23", "F27"}

var testName = regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w*)")

// proofs returns, for each fault in failure-modes.md, the tests that its entry names.
func proofs(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for _, entry := range strings.Split(read(t, "failure-modes.md"), "\n### ")[1:] {
		fault, rest, _ := strings.Cut(entry, " ")
		_, proof, _ := strings.Cut(rest, "**Proved by.**")
		proof, _, _ = strings.Cut(proof, "\n\n") // the list of tests in an entry ends at the first blank line
		for _, name := range testName.FindAllStringSubmatch(proof, -1) {
			found[fault] = append(found[fault], name[1])
		}
	}
	return found
}

// recipe returns the commands that make would run for a target.
func recipe(t *testing.T, target string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "make", "-n", target)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("make -n %s: %v\n%s", target, err, out)
	}
	return string(out)
}

// TestGateIsRun: each fault in gate has a row in the table of failure-modes.md. The tests in this row are also in the
// entry of the fault, and `make test` runs all of them.
func TestGateIsRun(t *testing.T) {
	t.Parallel()
	rows := map[string][]string{}
	for _, row := range regexp.MustCompile(`(?m)^\| \[(F\d+)\]\(#\S+\) \|(.*)$`).FindAllStringSubmatch(read(t, "failure-modes.md"), -1) {
		for _, name := range testName.FindAllStringSubmatch(row[2], -1) {
			rows[row[1]] = append(rows[row[1]], name[1])
		}
	}
	proven := proofs(t)
	for _, fault := range gate {
		if len(rows[fault]) == 0 {
			t.Errorf("%s: the gate's table names no test", fault)
		}
		for _, name := range rows[fault] {
			if !slices.Contains(proven[fault], name) {
				t.Errorf("%s: its entry does not name %s", fault, name)
			}
			if path := definedIn(t, name); path == "" || strings.Contains(read(t, path), "//go:build") {
				t.Errorf("%s: %s is in %q, want a file that is always built", fault, name, path)
			}
		}
	}
	// On a machine that lacks a tool, make leaves out some tests by name, but no test of a fault in gate.
	const lacking = `${left_out:+-skip "$left_out"}`
	script := read(t, filepath.Join(root, "integration/needs.sh"))
	for fault, names := range rows {
		for _, name := range names {
			if strings.Contains(script, name) {
				t.Errorf("%s: integration/needs.sh may leave out %s", fault, name)
			}
		}
	}
	for _, left := range regexp.MustCompile(`leave_out "(\S+)"`).FindAllStringSubmatch(script, -1) {
		for name := range strings.SplitSeq(left[1], "|") {
			if definedIn(t, name) == "" {
				t.Errorf("integration/needs.sh leaves out %s, which is no test", name)
			}
		}
	}
	steps := strings.ReplaceAll(recipe(t, "test"), lacking, "")
	if !strings.Contains(steps, "go test") || !strings.Contains(steps, " ./...") {
		t.Errorf("make test does %q, want go test of ./...", steps)
	}
	for _, less := range []string{" -run", " -skip", " -short", " -tags"} {
		if strings.Contains(steps, less) {
			t.Errorf("make test does %q, which leaves tests out by%s", steps, less)
		}
	}
}

// definedIn returns the path of the file that defines a test; "" when no file does.
func definedIn(t *testing.T, name string) (found string) {
	t.Helper()
	for _, pattern := range []string{"cmd/*", "cmd/*/*", "pkg/*", "pkg/*/*", "pkg/*/*/*", "integration", "integration/*"} {
		files, err := filepath.Glob(filepath.Join(root, pattern, "*_test.go"))
		check.NoError(t, err)
		for _, path := range files {
			if strings.Contains(read(t, path), "func "+name+"(") {
				return path
			}
		}
	}
	return ""
}

// TestFaultTargetRunsEveryProof: `make test-faults` selects every test that failure-modes.md names for a fault.
func TestFaultTargetRunsEveryProof(t *testing.T) {
	t.Parallel()
	var patterns []*regexp.Regexp
	for line := range strings.SplitSeq(recipe(t, "test-faults"), "\n") {
		pattern := regexp.MustCompile(`-run '([^']+)'`).FindStringSubmatch(line)
		if pattern == nil || !strings.HasSuffix(strings.TrimSpace(line), " ./...") {
			continue
		}
		patterns = append(patterns, regexp.MustCompile(pattern[1]))
	}
	if len(patterns) == 0 {
		t.Fatal("make test-faults has no -run '...' of ./...")
	}
	all := proofs(t)
	if listed := strings.Count(read(t, "failure-modes.md"), "\n### F"); len(all) != listed {
		t.Errorf("%d faults name what proves them, want all %d", len(all), listed)
	}
	for fault, names := range all {
		for _, name := range names {
			if !slices.ContainsFunc(patterns, func(p *regexp.Regexp) bool { return p.MatchString(name) }) {
				t.Errorf("%s: make test-faults does not run %s", fault, name)
			}
		}
	}
}

// TestOlderKafkaIsProved: the tests that `make test-faults` runs with an older version of Kafka exist in the packages
// that the command names.
func TestOlderKafkaIsProved(t *testing.T) {
	t.Parallel()
	command := regexp.MustCompile(`KAFKA_VERSION=4.*-run '\^\(([^']+)\)\$' \\\n(.*)`).FindStringSubmatch(recipe(t, "test-faults"))
	check.Require(t, command != nil, "make test-faults runs no tests on an older version of Kafka")
	packages := strings.Fields(command[2])
	for name := range strings.SplitSeq(command[1], "|") {
		dir := strings.Replace(filepath.Dir(definedIn(t, name)), root, ".", 1)
		if !slices.Contains(packages, dir) {
			t.Errorf("%s is in %s, want it in one of %v", name, dir, packages)
		}
	}
}
