package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// Files with the npm packages: those whose code is served by the API, and those
// that only tests use.
const (
	shippedLock = "pkg/console/web/package-lock.json"
	testLock    = "integration/stack/postgres/package-lock.json"
)

// part is something that others made and that is in a program or in a test.
type part struct {
	ecosystem string // golang or npm
	name      string
	version   string
	folder    string // where it lies; "" for npm, whose lock file names licences
	licence   string // as the lock file says; "" for Go modules
	testOnly  bool
}

// url is the package URL, which names a part across ecosystems.
func (p part) url() string {
	return fmt.Sprintf("pkg:%s/%s@%s", p.ecosystem, strings.ReplaceAll(p.name, "@", "%40"), p.version)
}

// shipped lists the modules that are linked into the programs and the packages
// that the console's pages load. The order is that of their URLs.
func shipped(ctx context.Context) ([]part, error) {
	parts, err := modules(ctx, programs...)
	if err != nil {
		return nil, err
	}
	web, err := locked(shippedLock)
	if err != nil {
		return nil, err
	}
	for _, p := range web {
		if !p.testOnly {
			parts = append(parts, p)
		}
	}
	slices.SortFunc(parts, func(a, b part) int { return strings.Compare(a.url(), b.url()) })
	return parts, nil
}

// modules lists the modules that packages are built of; with "-test" also what
// their tests need.
func modules(ctx context.Context, args ...string) ([]part, error) {
	const line = `{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}`
	cmd := exec.CommandContext(ctx, "go", append([]string{"list", "-deps", "-f", line}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	seen := map[part]bool{}
	var parts []part
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		words := strings.SplitN(lines.Text(), " ", 3)
		if len(words) < 3 {
			continue // the standard library
		}
		if p := (part{ecosystem: "golang", name: words[0], version: words[1], folder: words[2]}); !seen[p] {
			seen[p] = true
			parts = append(parts, p)
		}
	}
	return parts, nil
}

// locked lists the packages of an npm lock file.
func locked(path string) ([]part, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var lock struct {
		Packages map[string]struct {
			Version, License string
			Dev              bool
		}
	}
	if err := json.Unmarshal(raw, &lock); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var parts []part
	for where, p := range lock.Packages {
		if where == "" {
			continue // ourselves
		}
		name := where[strings.LastIndex(where, "node_modules/")+len("node_modules/"):]
		parts = append(parts, part{ecosystem: "npm", name: name, version: p.Version, licence: p.License, testOnly: p.Dev})
	}
	slices.SortFunc(parts, func(a, b part) int { return strings.Compare(a.url(), b.url()) })
	return parts, nil
}
