package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestRecognise(t *testing.T) {
	t.Parallel()
	const redistribution = "Redistribution and use in source and binary forms, with or\nwithout modification, are permitted provided that"
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"MIT", "The MIT License\n\nPermission is hereby granted, free of charge, to any\n person obtaining a copy of", []string{"MIT"}},
		{"Apache", "   Apache License\n   Version 2.0, January 2004", []string{"Apache-2.0"}},
		{"TwoClauses", redistribution, []string{"BSD-2-Clause"}},
		{"ThreeClauses", redistribution + " ... Neither the name of the author nor the names of its contributors may be used to endorse", []string{"BSD-3-Clause"}},
		{"ThreeClausesOfACompany", redistribution + " Neither the name of Google Inc. nor the names of its contributors may be used to endorse", []string{"BSD-3-Clause"}},
		{"Several", "Apache License Version 2.0\n" + redistribution, []string{"Apache-2.0", "BSD-2-Clause"}},
		{"Copyleft", "GNU GENERAL PUBLIC LICENSE\nVersion 3", []string{"GPL"}},
		{"MozillaNamesOthers", "Mozilla Public License Version 2.0 ... the GNU General Public License, Version 2.0", []string{"MPL-2.0"}},
		{"Unknown", "All rights reserved.", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := recognise(c.text); !slices.Equal(got, c.want) {
				t.Errorf("recognise(%q) = %v, want %v", c.text, got, c.want)
			}
		})
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write(t, filepath.Join(folder, "LICENSE"), "GNU General Public License")
	silent := t.TempDir()
	write(t, filepath.Join(silent, "licences.go"), "Apache License Version 2.0") // no licence file
	for _, c := range []struct {
		name, want string
		part       part
	}{
		{"Allowed", "", part{ecosystem: "npm", name: "a", version: "1", licence: "MIT"}},
		{"EachOfSeveralMustBeAllowed", "a@1: licence GPL-3.0", part{ecosystem: "npm", name: "a", version: "1", licence: "(MIT OR GPL-3.0)"}},
		{"NotAllowed", "pkg:golang/b@v2: licence GPL is not allowed", part{ecosystem: "golang", name: "b", version: "v2", folder: folder}},
		{"None", "pkg:golang/c@v3: no known licence", part{ecosystem: "golang", name: "c", version: "v3", folder: silent}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			problems, err := judge(io.Discard, "here", []part{c.part}, []string{"MIT", "OR"})
			if err != nil {
				t.Fatal(err)
			}
			if c.want == "" && len(problems) > 0 || c.want != "" && (len(problems) != 1 || !strings.Contains(problems[0].Error(), c.want)) {
				t.Errorf("got problems %v, want %q", problems, c.want)
			}
		})
	}
}

func TestEveryPartHasAnAllowedLicence(t *testing.T) {
	t.Chdir("../..")
	var out bytes.Buffer
	if err := licences(t.Context(), &out); err != nil {
		t.Error(err)
	}
	if !strings.Contains(out.String(), "parts in the programs") {
		t.Errorf("got %q, want how many parts were looked at", out.String())
	}
}

func TestBillNamesEverythingThatIsShipped(t *testing.T) {
	t.Chdir("../..")
	parts, err := shipped(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first, err := billOf("1.2.3", parts)
	if err != nil {
		t.Fatal(err)
	}
	again, err := billOf("1.2.3", parts)
	if err != nil {
		t.Fatal(err)
	}
	a, b := text(t, first), text(t, again)
	if a != b {
		t.Error("two bills of the same sources differ")
	}
	for _, want := range []string{"pkg:golang/github.com/segmentio/kafka-go@v", "pkg:golang/github.com/lib/pq@v", "pkg:npm/htmx.org@", `"id": "0BSD"`, `"specVersion": "1.6"`} {
		if !strings.Contains(a, want) {
			t.Errorf("the bill has no %s", want)
		}
	}
	for _, not := range []string{"axe-core", "chromedp", "franz-go"} { // in tests alone
		if strings.Contains(a, not) {
			t.Errorf("the bill has %s, which is not shipped", not)
		}
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	first, second := t.TempDir(), t.TempDir()
	for _, p := range programs {
		name := "dlq-manager-" + filepath.Base(p)
		write(t, filepath.Join(first, name), "the same "+name)
		write(t, filepath.Join(second, name), "the same "+name)
	}
	if err := compare(first, second, io.Discard); err != nil {
		t.Errorf("equal programs: %v", err)
	}
	write(t, filepath.Join(second, "dlq-manager-ingester"), "another")
	if err := compare(first, second, io.Discard); err == nil || !strings.Contains(err.Error(), "dlq-manager-ingester: built twice") {
		t.Errorf("got %v, want an error that names the ingester", err)
	}
}

func TestCopyAllLeavesOutWhatNPMUnpacked(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "a", "b")
	for _, name := range []string{"x/y.go", "x/node_modules/z.js", "x/vendor/z.js"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(from, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(from, name), name)
	}
	if err := copyAll(from, to); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"x/y.go": true, "x/vendor/z.js": true, "x/node_modules": false} {
		if _, err := os.Stat(filepath.Join(to, name)); (err == nil) != want {
			t.Errorf("%s: got %v, want it there: %t", name, err, want)
		}
	}
}

func TestSection(t *testing.T) {
	t.Parallel()
	const log = "# Changelog\n\n## [Unreleased]\n\n- new\n\n## [1.1.0] - 2026-11-21\n\n### Added\n\n- b\n\n## [1.0.0]\n- a\n## [0.9.0]\n"
	for version, want := range map[string]string{
		"Unreleased": "- new", "1.1.0": "### Added\n\n- b", "1.0.0": "- a", "0.9.0": "", "2.0.0": "",
	} {
		if got := section(log, version); got != want {
			t.Errorf("section %s = %q, want %q", version, got, want)
		}
	}
}

func TestReleaseNotesAreWritten(t *testing.T) {
	t.Parallel()
	if err := printNotes("../../CHANGELOG.md", "v999.0.0", io.Discard); err != nil {
		t.Error(err)
	}
}

// TestToolsArePinned: what a release is made with is the same tomorrow.
func TestToolsArePinned(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"../../Makefile", "../../Dockerfile", "../../.ci/run"} {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for n, line := range strings.Split(string(raw), "\n") {
			if strings.Contains(line, "@latest") || strings.Contains(line, ":latest") {
				t.Errorf("%s:%d: %q takes whatever is newest", path, n+1, line)
			}
		}
	}
}

func text(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
