// Package docs_test checks that the tests, settings, log lines, metrics and workloads that the pages of this folder
// name exist in the code. It does not check whether the other statements of the pages are true.
package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

const root = ".."

// checked lists the pages whose names of tests, log lines, metrics and workloads are checked.
var checked = []string{"failure-modes.md", "runbook.md", "upgrade.md", "security.md", "kafka-sign-in.md"}

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	check.NoError(t, err)
	return string(raw)
}

// sources returns the joined text of those files of the repository for whose path the function keep returns true.
func sources(t *testing.T, keep func(path string) bool) string {
	t.Helper()
	var all strings.Builder
	for _, folder := range []string{"cmd", "pkg", "integration", "migrations", "deploy", "configs"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				if entry != nil && entry.Name() == "node_modules" {
					return filepath.SkipDir
				}
				return err
			}
			if keep(path) {
				raw, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				all.Write(raw)
				all.WriteByte('\n')
			}
			return nil
		})
		check.NoError(t, err)
	}
	return all.String()
}

func isTest(path string) bool { return strings.HasSuffix(path, "_test.go") }

func isProduct(path string) bool {
	return strings.HasSuffix(path, ".sql") || strings.HasSuffix(path, ".go") && !isTest(path)
}

// fromTests reports whether a file is a test, or a helper of tests such as the suites of stores.
func fromTests(path string) bool {
	return isTest(path) || strings.HasSuffix(path, ".go") && strings.Contains(path, "test/")
}

// TestNamesThatExist: every test, log line and metric that a page names exists.
func TestNamesThatExist(t *testing.T) {
	t.Parallel()
	tests := sources(t, fromTests) + read(t, filepath.Join(root, "architecture_test.go")) + read(t, filepath.Join(root, "release_test.go")) + read(t, "docs_test.go")
	product := sources(t, isProduct)
	shown := sources(t, func(path string) bool { return strings.HasSuffix(path, ".yaml") })
	for _, page := range checked {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			text := read(t, page)
			names := regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w*)(?:/([\\w/]+))?`").FindAllStringSubmatch(text, -1)
			for _, name := range names {
				if !strings.Contains(tests, "func "+name[1]+"(") {
					t.Errorf("%s is no test", name[1])
				}
				for part := range strings.SplitSeq(name[2], "/") {
					if part != "" && !strings.Contains(tests, `"`+part+`"`) && !strings.Contains(tests, `"`+part+`/"`) {
						t.Errorf("%s is no part of %s", part, name[1])
					}
				}
			}
			for _, line := range regexp.MustCompile("log `([^`]+)`").FindAllStringSubmatch(text, -1) {
				if !strings.Contains(product, line[1]) {
					t.Errorf("no program logs %q", line[1])
				}
			}
			for _, name := range regexp.MustCompile(`\bdlq_[a-z_]+`).FindAllString(text, -1) {
				short := regexp.MustCompile(`_(bucket|count|sum)$`).ReplaceAllString(name, "")
				if !strings.Contains(product, name) && !strings.Contains(product, short) && !strings.Contains(shown, name) {
					t.Errorf("nothing is called %s", name)
				}
			}
			if page != "runbook.md" && len(names) < 5 {
				t.Errorf("got %d names of tests, want those that prove what the page says", len(names))
			}
		})
	}
}

// TestSettingsThatExist: every setting that a page or README names is in configuration.md.
func TestSettingsThatExist(t *testing.T) {
	t.Parallel()
	settings := read(t, "configuration.md")
	sections := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z]+)\\.").FindAllStringSubmatch(settings, -1) {
		sections[row[1]] = true
	}
	if !sections["tracing"] || len(sections) < 16 {
		t.Errorf("got the sections %v, want all of them", keys(sections))
	}
	named := regexp.MustCompile("`((?:" + strings.Join(keys(sections), "|") + ")\\.[a-z_.]+)(?:`|:)")
	pages, err := filepath.Glob("*.md")
	if err != nil || len(pages) < 10 {
		t.Fatalf("got %v, %v, want the pages", pages, err)
	}
	for _, page := range append(pages, filepath.Join(root, "README.md"), filepath.Join(root, "deploy/k8s/README.md")) {
		for _, key := range named.FindAllStringSubmatch(read(t, page), -1) {
			file := strings.HasSuffix(key[1], ".go")
			if !file && !strings.Contains(settings, "`"+key[1]+"`") && !strings.Contains(settings, "`"+key[1]+".") {
				t.Errorf("%s: %s is no setting", page, key[1])
			}
		}
	}
}

// TestEveryAlertHasItsEntry: every alert has a severity, a summary, and a link to an entry of the runbook. Each entry
// has all of its parts and belongs to an alert.
func TestEveryAlertHasItsEntry(t *testing.T) {
	t.Parallel()
	rules := read(t, filepath.Join(root, "deploy/k8s/components/monitoring/rules.yaml"))
	alerts := map[string]bool{}
	for _, a := range regexp.MustCompile(`(?m)^\s*- alert: (\w+)$`).FindAllStringSubmatch(rules, -1) {
		alerts[a[1]] = true
	}
	entries := entriesOf(read(t, "runbook.md"))
	if len(alerts) < 10 {
		t.Errorf("got %d alerts, want all of them", len(alerts))
	}
	for name := range alerts {
		entry, there := entries[name]
		if !there {
			t.Errorf("alert %s has no entry", name)
			continue
		}
		for _, want := range []string{"**Means.**", "**Look.**", "**Do.**", "```sh", "```promql"} {
			if !strings.Contains(entry, want) {
				t.Errorf("the entry of %s has no %s", name, want)
			}
		}
	}
	for name := range entries {
		if !alerts[name] {
			t.Errorf("there is no alert %s", name)
		}
	}
	for _, rule := range strings.Split(rules, "- alert: ")[1:] {
		name, _, _ := strings.Cut(rule, "\n")
		link := "runbook_url: https://github.com/dlq-manager/dlq-manager/blob/main/docs/runbook.md#" + strings.ToLower(name) + "\n"
		if !regexp.MustCompile(`severity: (page|ticket)\n`).MatchString(rule) || !strings.Contains(rule, "summary: ") || !strings.Contains(rule, link) {
			t.Errorf("alert %s has no severity page or ticket, no summary, or not %s", name, link)
		}
	}
}

// TestFencesAreFences: every code block begins at the start of a line, because Markdown shows other code blocks as
// plain text. Every code block has an end, and none begins within another one.
func TestFencesAreFences(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("got %v, %v, want the pages", pages, err)
	}
	for _, page := range pages {
		open := false
		for i, line := range strings.Split(read(t, page), "\n") {
			text := strings.TrimLeft(line, " ")
			rest, fence := strings.CutPrefix(text, "```")
			switch {
			case fence && strings.Contains(rest, "`"), !fence && strings.Contains(line, "```"):
				t.Errorf("%s:%d: %q has a fence that is not at the start of its line", page, i+1, line)
			case fence && open && rest != "":
				t.Errorf("%s:%d: %q begins a block within one", page, i+1, line)
			}
			open = open != fence
		}
		if open {
			t.Errorf("%s: the last block has no end", page)
		}
	}
}

func keys[V any](m map[string]V) (all []string) {
	for key := range m {
		all = append(all, key)
	}
	return all
}

// entriesOf cuts the text of the runbook into its entries, by the names of the alerts.
func entriesOf(text string) map[string]string {
	entries := map[string]string{}
	for _, part := range strings.Split(text, "\n## ") {
		title, body, _ := strings.Cut(part, "\n")
		if strings.HasPrefix(title, "DLQ") {
			entries[title] = body
		}
	}
	return entries
}

// TestEveryFaultIsListed: the faults in failure-modes.md are numbered from F1 without gaps. The entry of each fault
// names the tests that inject the fault, or says that no test does.
func TestEveryFaultIsListed(t *testing.T) {
	t.Parallel()
	rows := regexp.MustCompile(`(?m)^### F(\d+)\b`).FindAllStringSubmatch(read(t, "failure-modes.md"), -1)
	if len(rows) < 32 {
		t.Errorf("got %d faults, want at least 32", len(rows))
	}
	for n := range len(rows) {
		if !slices.ContainsFunc(rows, func(row []string) bool { return row[1] == strconv.Itoa(n+1) }) {
			t.Errorf("of %d faults none is F%d", len(rows), n+1)
		}
	}
	for i, entry := range strings.Split(read(t, "failure-modes.md"), "\n### F")[1:] {
		for _, want := range []string{"**Seen.**", "**Safe.**", "**Do.**", "**Proved by.**"} {
			if !strings.Contains(entry, want) {
				t.Errorf("fault %d has no %s", i+1, want)
			}
		}
		_, proof, _ := strings.Cut(entry, "**Proved by.**")
		if !strings.Contains(proof, "`Test") && !strings.Contains(proof, "Nothing") {
			t.Errorf("fault %d: neither a test nor Nothing proves it", i+1)
		}
	}
}

// TestPermissionsAreGranted: the commands of the page grant what its table lists, and nothing else. TestFaultPermissions
// runs the programs with what the commands grant.
func TestPermissionsAreGranted(t *testing.T) {
	t.Parallel()
	page := read(t, "kafka-sign-in.md")
	words := func(pattern string) (all []string) {
		for _, found := range regexp.MustCompile(pattern).FindAllStringSubmatch(page, -1) {
			all = append(all, strings.Join(found[1:], " "))
		}
		return all
	}
	listed := words(`(?m)^\| (dlq-\w+) \| (\w+) \| (topic|group) (\w+) \|`)
	granted := words(`(?m)^kafka-acls\.sh --bootstrap-server BROKER --add --allow-principal User:(\S+) --operation (\S+) --(\S+) (\S+)$`)
	check.Equal(t, granted, listed, "granted permissions")
	check.Equal(t, strings.Count(page, "kafka-acls.sh"), len(listed), "commands")
}

// TestWorkloadsExist: each Deployment, Job or CronJob that a command in the pages names is created by a manifest.
func TestWorkloadsExist(t *testing.T) {
	t.Parallel()
	manifests := sources(t, func(path string) bool {
		return strings.Contains(path, "deploy/k8s") && strings.HasSuffix(path, ".yaml")
	})
	for _, page := range checked {
		for _, w := range regexp.MustCompile(`\b(?:deployment|job|cronjob)/([a-z0-9-]+)`).FindAllStringSubmatch(read(t, page), -1) {
			if !strings.Contains(manifests, "name: "+w[1]+"\n") {
				t.Errorf("%s: no manifest makes %s", page, w[1])
			}
		}
	}
}

func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("*.md")
	check.NoError(t, err)
	for _, page := range pages {
		for _, link := range regexp.MustCompile(`\]\(([^)#:\s]+)(?:#[^)]*)?\)`).FindAllStringSubmatch(read(t, page), -1) {
			if _, err := os.Stat(link[1]); err != nil {
				t.Errorf("%s links to %s: %v", page, link[1], err)
			}
		}
	}
}
