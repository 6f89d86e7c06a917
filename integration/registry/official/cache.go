package official

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// cacheVariable is the environment variable that sets another folder for downloads; package stack uses the same
// variable.
const cacheVariable = "DLQ_STACK_CACHE"

// installPatience limits one installation, including the wait for another process that installs.
const installPatience = 10 * time.Minute

// installation is a set of Python or Node packages that is installed into a folder of the cache.
type installation struct {
	name    string
	tool    string                                      // version of the Python that runs the packages; "" for Node
	files   map[string][]byte                           // files with the pinned versions, by name
	install func(ctx context.Context, dir string) error // downloads the packages into dir, which has the files
}

// ensure returns the folder of the installation and makes it if it is missing. When several processes need the
// installation, one of them installs and the others wait.
func (i installation) ensure(ctx context.Context) (string, error) {
	cache, err := cacheFolder(os.Getenv)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, i.name+"-"+i.fingerprint())
	if exists(dir) {
		return dir, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", fmt.Errorf("make cache: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, installPatience)
	defer cancel()
	lock, err := awaitLock(ctx, dir+".lock")
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if exists(dir) {
		return dir, nil
	}
	return dir, i.installInto(ctx, dir)
}

// installInto installs into a folder of another name, and renames the folder at the end. So a folder with the name dir
// is always complete, even if a process was killed while it installed.
func (i installation) installInto(ctx context.Context, dir string) error {
	building := dir + ".building"
	if err := os.RemoveAll(building); err != nil {
		return err
	}
	if err := os.Mkdir(building, 0o755); err != nil {
		return err
	}
	for name, content := range i.files {
		if err := os.WriteFile(filepath.Join(building, name), content, 0o644); err != nil {
			return err
		}
	}
	if err := i.install(ctx, building); err != nil {
		return fmt.Errorf("install the client for %s: %w", i.name, err)
	}
	return os.Rename(building, dir)
}

// fingerprint returns a hash of the files with the pinned versions and of the field tool.
func (i installation) fingerprint() string {
	sum := sha256.New()
	fmt.Fprintln(sum, i.tool)
	for _, name := range slices.Sorted(maps.Keys(i.files)) {
		fmt.Fprintf(sum, "%s %d\n", name, len(i.files[name]))
		sum.Write(i.files[name])
	}
	return hex.EncodeToString(sum.Sum(nil))[:16]
}

// cacheFolder returns the folder for all installations, next to the folder in which package stack keeps its downloads.
func cacheFolder(getenv func(string) string) (string, error) {
	const suffix = "-official"
	if moved := getenv(cacheVariable); moved != "" {
		folder, err := filepath.Abs(moved)
		return folder + suffix, err
	}
	if os.Getuid() == 0 {
		return "/var/cache/dlq-manager-stack" + suffix, nil
	}
	home, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find cache: %w", err)
	}
	return filepath.Join(home, "dlq-manager-stack"+suffix), nil
}

// awaitLock waits for a lock between processes, until ctx ends. Closing the file releases the lock. The file is never
// removed: otherwise two processes could lock two different files of the same name.
func awaitLock(ctx context.Context, path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return file, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			file.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			file.Close()
			return nil, fmt.Errorf("wait for lock %s: %w", path, ctx.Err())
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
