package dlqmanager_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

func readFile(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	check.NoError(t, err)
	return string(raw)
}

// Release tools have fixed versions, so that a later build uses the same tools. The images of the Dockerfile are
// arguments with a version, which a builder can replace by digests.
func TestToolsArePinned(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"Makefile", "Dockerfile", ".ci/run"} {
		for n, line := range strings.Split(readFile(t, path), "\n") {
			if strings.Contains(line, "@latest") || strings.Contains(line, ":latest") {
				t.Errorf("%s:%d: %q takes whatever is newest", path, n+1, line)
			}
		}
	}
	arguments := map[string]string{}
	for _, found := range regexp.MustCompile(`(?m)^ARG (\w+)=(\S+)$`).FindAllStringSubmatch(readFile(t, "Dockerfile"), -1) {
		arguments[found[1]] = found[2]
	}
	froms := regexp.MustCompile(`(?m)^FROM (?:--\S+ )?(\S+)`).FindAllStringSubmatch(readFile(t, "Dockerfile"), -1)
	if len(froms) != 3 {
		t.Fatalf("got %d images, want 3", len(froms))
	}
	version := regexp.MustCompile(`[0-9]+(\.[0-9]+)?(:nonroot|@sha256:[0-9a-f]{64})?$`)
	for _, from := range froms {
		if name, ok := strings.CutPrefix(from[1], "$"); !ok || !version.MatchString(arguments[name]) {
			t.Errorf("FROM %s (%s): want an argument that is a version", from[1], arguments[name])
		}
	}
}

// .ci/run and release-check test the alerts with promtool, because no Go test runs promtool.
func TestAlertsAreTested(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{".ci/run": "(?m)^make rules$", "Makefile": `(?m)^release-check:[^#\n]* rules `} {
		if !regexp.MustCompile(want).MatchString(readFile(t, path)) {
			t.Errorf("%s does not run make rules", path)
		}
	}
}

// The scripts of the console's pages are part of the product, so the Makefile's list of licences
// applies to them. Scripts that only tests use may have one more licence.
func TestVendoredScriptsHaveAllowedLicences(t *testing.T) {
	t.Parallel()
	list := regexp.MustCompile(`(?m)^LICENCES := (\S+)$`).FindStringSubmatch(readFile(t, "Makefile"))
	if list == nil {
		t.Fatal("the Makefile has no list of licences")
	}
	shipped := map[string]bool{}
	for _, path := range []string{
		"pkg/console/web/package-lock.json", "integration/stack/postgres/package-lock.json",
		"integration/frameworks/kafkajs/package-lock.json",
	} {
		var lock struct {
			Packages map[string]struct {
				License string
				Dev     bool
			}
		}
		check.NoError(t, json.Unmarshal([]byte(readFile(t, path)), &lock))
		for name, p := range lock.Packages {
			inTestsAlone := p.Dev || strings.HasPrefix(path, "integration/")
			for _, licence := range strings.FieldsFunc(p.License, func(r rune) bool { return strings.ContainsRune(" ()", r) }) {
				if !slices.Contains(strings.Split(list[1], ","), licence) && !(inTestsAlone && licence == "MPL-2.0") {
					t.Errorf("%s: %s has the licence %s", path, name, licence)
				}
			}
			if name != "" && p.License == "" {
				t.Errorf("%s: %s has no licence", path, name)
			}
			shipped[name] = shipped[name] || name != "" && !inTestsAlone
		}
	}
	if !shipped["node_modules/htmx.org"] || shipped["node_modules/axe-core"] {
		t.Errorf("got the shipped packages %v, want htmx.org and not axe-core", shipped)
	}
}
