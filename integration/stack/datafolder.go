package stack

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/dlq-manager/dlq-manager/integration/filelock"
)

const (
	runPrefix = "run-"
	lockName  = "in-use.lock"
)

// dataFolder is the temporary folder of a process that has started servers. The process holds a lock on a file in the
// folder as long as it lives. The lock shows reliably whether the folder is abandoned. A process id could not show
// that, because the system uses the ids of ended processes again.
type dataFolder struct {
	path string
	lock *filelock.Lock
}

// newDataFolder creates a data folder below dir; "" means the system's temporary folder. It removes the data folders of
// processes that were killed.
func newDataFolder(dir string) (*dataFolder, error) { return makeDataFolder(dir, os.TempDir()) }

const (
	memory     = "/dev/shm" // a file system in memory on Linux
	memoryFree = 8 << 30    // bytes that must be free there, so that the servers cannot use up the machine's memory
)

// newFastFolder does the same as newDataFolder, but an empty dir means a folder in memory if memoryFree bytes are free
// there. There PostgreSQL creates a database five times as fast, with a seventh of the processor time of the kernel, as
// a run of 30 copies of a migrated database has shown.
func newFastFolder(dir string) (*dataFolder, error) {
	var room syscall.Statfs_t
	if runtime.GOOS == "linux" && syscall.Statfs(memory, &room) == nil && room.Bavail*uint64(room.Bsize) >= memoryFree {
		return makeDataFolder(dir, memory)
	}
	return newDataFolder(dir)
}

func makeDataFolder(dir, temporary string) (*dataFolder, error) {
	home, err := dataHome(dir, temporary)
	if err != nil {
		return nil, fmt.Errorf("prepare data folder: %w", err)
	}
	gate, err := lockGate(home)
	if err != nil {
		return nil, fmt.Errorf("prepare data folder: %w", err)
	}
	defer gate.Release()
	sweep(home)
	return makeRun(home)
}

// lockGate lets only one process at a time create, remove or sweep folders below home. While a folder is being created
// or removed, its own lock is not held, so without lockGate another process could consider the folder abandoned.
func lockGate(home string) (*filelock.Lock, error) { return filelock.Wait(filepath.Join(home, "lock")) }

// dataHome returns the folder that contains this user's data folders: dir or, if that is "", one in the folder
// temporary.
func dataHome(dir, temporary string) (string, error) {
	if dir != "" {
		home, err := filepath.Abs(dir)
		if err != nil {
			return "", err
		}
		return home, os.MkdirAll(home, 0o755)
	}
	home := filepath.Join(temporary, "dlq-manager-stack-"+strconv.Itoa(os.Getuid()))
	if err := os.MkdirAll(home, 0o755); err != nil {
		return "", err
	}
	return home, checkOwner(home)
}

// checkOwner refuses a folder of another user: the name in the shared temporary folder is predictable, so another user
// could have created the folder, and could replace its content.
func checkOwner(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || int(stat.Uid) != os.Getuid() {
		return fmt.Errorf("%s is not a folder of this user", path)
	}
	return nil
}

func makeRun(home string) (*dataFolder, error) {
	path, err := os.MkdirTemp(home, runPrefix)
	if err != nil {
		return nil, fmt.Errorf("make data folder: %w", err)
	}
	// PostgreSQL may run as another user than this process, and that user must be able to enter this folder.
	if err := os.Chmod(path, 0o755); err != nil {
		return nil, fmt.Errorf("open data folder to the servers: %w", err)
	}
	lock, err := filelock.Wait(filepath.Join(path, lockName))
	if err != nil {
		return nil, fmt.Errorf("mark data folder as used: %w", err)
	}
	return &dataFolder{path: path, lock: lock}, nil
}

// sweep removes the abandoned folders below home. If it cannot remove a folder, it leaves the folder for the next start
// of a stack.
func sweep(home string) {
	entries, err := os.ReadDir(home)
	if err != nil {
		return
	}
	for _, entry := range entries {
		if entry.IsDir() && strings.HasPrefix(entry.Name(), runPrefix) {
			removeIfAbandoned(filepath.Join(home, entry.Name()))
		}
	}
}

func removeIfAbandoned(path string) {
	lock, err := filelock.Try(filepath.Join(path, lockName))
	if err != nil {
		return
	}
	defer lock.Release()
	os.RemoveAll(path)
}

func (f *dataFolder) join(name string) string { return filepath.Join(f.path, name) }

// remove deletes the folder with everything in it. It does nothing for a nil dataFolder.
func (f *dataFolder) remove() error {
	if f == nil {
		return nil
	}
	gate, err := lockGate(filepath.Dir(f.path))
	if err != nil {
		return fmt.Errorf("remove data folder: %w", err)
	}
	defer gate.Release()
	return errors.Join(os.RemoveAll(f.path), f.lock.Release())
}
