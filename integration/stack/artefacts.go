package stack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// installPatience limits one download. Maven and npm retry by themselves.
const installPatience = 10 * time.Minute

// artefact is a set of packages that a package manager installs into the cache.
type artefact struct {
	name    string
	files   map[string][]byte                           // input of the package manager
	install func(ctx context.Context, dir string) error // downloads into dir, which already has the files
}

// ensure returns the folder of the artefact, after installing it if it is missing. It is safe for
// concurrent processes: one of them installs.
func (a artefact) ensure(ctx context.Context, cache string) (string, error) {
	dir := filepath.Join(cache, a.name+"-"+a.fingerprint())
	if exists(dir) {
		return dir, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", fmt.Errorf("make cache: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, installPatience)
	defer cancel()
	lock, err := awaitLockFile(ctx, dir+".lock")
	if err != nil {
		return "", err
	}
	defer lock.release()
	if exists(dir) {
		return dir, nil
	}
	return dir, a.installInto(ctx, dir)
}

// installInto builds the folder under another name, so that dir exists only when it is complete,
// whenever this process may die.
func (a artefact) installInto(ctx context.Context, dir string) error {
	building := dir + ".building"
	if err := os.RemoveAll(building); err != nil {
		return err
	}
	if err := os.Mkdir(building, 0o755); err != nil {
		return err
	}
	for name, content := range a.files {
		path := filepath.Join(building, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	if err := a.install(ctx, building); err != nil {
		return err
	}
	return os.Rename(building, dir)
}

// fingerprint identifies a version of an artefact by its pinned files.
func (a artefact) fingerprint() string {
	sum := sha256.New()
	for _, name := range sortedKeys(a.files) {
		fmt.Fprintf(sum, "%s %d\n", name, len(a.files[name]))
		sum.Write(a.files[name])
	}
	return hex.EncodeToString(sum.Sum(nil))[:16]
}

// cacheFolder returns the permanent folder of the artefacts. For root, this folder is outside of root's home, because
// PostgreSQL runs as another user, who cannot enter that home.
func cacheFolder(env environment) (string, error) {
	if env.cache != "" {
		return filepath.Abs(env.cache)
	}
	if os.Getuid() == 0 {
		return "/var/cache/dlq-manager-stack", nil
	}
	home, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find cache: %w", err)
	}
	return filepath.Join(home, "dlq-manager-stack"), nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// lookPath finds a program in the folders of path, a value of PATH.
func lookPath(path, program string) (string, error) {
	for _, dir := range filepath.SplitList(path) {
		candidate := filepath.Join(dir, program)
		if found, err := exec.LookPath(candidate); err == nil {
			return filepath.Abs(found)
		}
	}
	return "", fmt.Errorf("%s is not on PATH", program)
}
