package stack

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// NodeProgram prepares a program for Node in a folder of the cache. files are its source file main, its package.json
// and its package-lock.json, whose packages NodeProgram downloads if they are missing; there is no stand-in.
func NodeProgram(ctx context.Context, name string, files map[string][]byte, main string) (*exec.Cmd, error) {
	env := readEnvironment(os.Getenv)
	node, err := lookPath(env.path, "node")
	if err != nil {
		return nil, err
	}
	cache, err := cacheFolder(env)
	if err != nil {
		return nil, err
	}
	install := func(ctx context.Context, dir string) error { return npmInstall(ctx, env, dir) }
	dir, err := artefact{name: "node-" + name, files: files, install: install}.ensure(ctx, cache)
	if err != nil {
		return nil, fmt.Errorf("install the packages of %s: %w", name, err)
	}
	cmd := exec.CommandContext(ctx, node, main)
	cmd.Dir = dir
	return cmd, nil
}

// npmInstall downloads the packages of dir/package-lock.json into dir/node_modules, without running their scripts.
func npmInstall(ctx context.Context, env environment, dir string) error {
	npm, err := lookPath(env.path, "npm")
	if err != nil {
		return err
	}
	cmd := exec.Command(npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	cmd.Dir = dir
	return run(ctx, cmd, filepath.Join(dir, "install.log"))
}
