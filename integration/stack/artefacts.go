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

	"github.com/dlq-manager/dlq-manager/integration/filelock"
)

// installPatience limits one installation, including the wait for another process that installs. Maven and npm retry by
// themselves.
const installPatience = 10 * time.Minute

// artefact is something that Maven, npm or another package manager installs into a folder of the cache, such as Kafka's
// jars.
type artefact struct {
	name    string
	files   map[string][]byte                           // files with the pinned versions, for the package manager
	install func(ctx context.Context, dir string) error // installs into dir, which already contains files
}

// ensure returns the folder of the artefact, and installs the artefact if the folder is missing. If several processes
// call ensure, one of them installs and the others wait.
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
	lock, err := filelock.WaitUntil(ctx, dir+".lock")
	if err != nil {
		return "", err
	}
	defer lock.Release()
	if exists(dir) {
		return dir, nil
	}
	return dir, a.installInto(ctx, dir)
}

// installInto installs into a folder of another name, and renames it to dir at the end. So dir is always complete, even
// if this process is killed while it installs.
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

// fingerprint returns a hash of the files with the pinned versions. Other versions have another hash and so another
// folder in the cache.
func (a artefact) fingerprint() string {
	sum := sha256.New()
	for _, name := range sortedKeys(a.files) {
		fmt.Fprintf(sum, "%s %d\n", name, len(a.files[name]))
		sum.Write(a.files[name])
	}
	return hex.EncodeToString(sum.Sum(nil))[:16]
}

// cacheFolder returns the folder with all artefacts, which remains when a process ends. For root, it is not in root's
// home, because PostgreSQL runs as another user, who cannot enter that home.
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
