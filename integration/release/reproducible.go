package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// sources are what the programs are built of; the Dockerfile takes the same.
var sources = []string{"go.mod", "go.sum", "cmd", "pkg", "migrations"}

// reproducible copies the sources into two folders, builds the programs in each,
// the second time with an empty build cache, and wants the same bytes.
func reproducible(ctx context.Context, version string, out io.Writer) error {
	folder, err := os.MkdirTemp("", "dlq-manager-twice-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	one, other := filepath.Join(folder, "one"), filepath.Join(folder, "an", "other")
	for _, name := range sources {
		if err := copyAll(name, filepath.Join(one, name)); err != nil {
			return fmt.Errorf("copy %s: %w", name, err)
		}
	}
	if err := copyAll(one, other); err != nil {
		return fmt.Errorf("copy the copy: %w", err)
	}
	first, second := filepath.Join(folder, "first"), filepath.Join(folder, "second")
	if err := build(ctx, one, first, version); err != nil {
		return err
	}
	if err := build(ctx, other, second, version, "GOCACHE="+filepath.Join(folder, "cache")); err != nil {
		return err
	}
	return compare(first, second, out)
}

// build does what the Dockerfile does.
func build(ctx context.Context, from, to, version string, environ ...string) error {
	for _, p := range programs {
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false",
			"-ldflags", "-s -w -X "+product+"/pkg/telemetry.version="+version,
			"-o", filepath.Join(to, "dlq-manager-"+filepath.Base(p)), p)
		cmd.Dir = from
		cmd.Env = append(append(os.Environ(), "CGO_ENABLED=0"), environ...)
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("go build %s: %w", p, err)
		}
	}
	return nil
}

// compare prints the digest of each program and fails when two differ.
func compare(first, second string, out io.Writer) error {
	var errs []error
	for _, p := range programs {
		name := "dlq-manager-" + filepath.Base(p)
		a, err := digest(filepath.Join(first, name))
		if err != nil {
			return err
		}
		b, err := digest(filepath.Join(second, name))
		if err != nil {
			return err
		}
		if a != b {
			errs = append(errs, fmt.Errorf("%s: built twice, %s and %s", name, a, b))
			continue
		}
		fmt.Fprintf(out, "%s  %s\n", a, name)
	}
	return errors.Join(errs...)
}

// copyAll copies a file or a folder without the libraries that npm unpacked to
// work with; those that the pages load lie elsewhere and come along.
func copyAll(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && entry.Name() == "node_modules" {
			return filepath.SkipDir
		}
		rest, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rest)
		if entry.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, raw, 0o644)
	})
}
