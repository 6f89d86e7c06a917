package stack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// fileLock is a lock between processes. When the process that holds the lock ends, the lock is released.
type fileLock struct{ file *os.File }

// errLocked means that another process holds the lock.
var errLocked = errors.New("locked by another process")

// lockFile waits until it has the lock on a file. It has no time limit, because other processes hold this lock only for
// short times.
func lockFile(path string) (*fileLock, error) { return flock(path, syscall.LOCK_EX) }

// tryLockFile takes the lock or returns errLocked.
func tryLockFile(path string) (*fileLock, error) {
	return flock(path, syscall.LOCK_EX|syscall.LOCK_NB)
}

// awaitLockFile waits for a lock that may be held for minutes, until ctx ends.
func awaitLockFile(ctx context.Context, path string) (*fileLock, error) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		lock, err := tryLockFile(path)
		if !errors.Is(err, errLocked) {
			return lock, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for lock %s: %w", path, ctx.Err())
		}
	}
}

func flock(path string, how int) (*fileLock, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(file.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err == nil {
		return &fileLock{file: file}, nil
	}
	file.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, errLocked
	}
	return nil, fmt.Errorf("lock %s: %w", path, err)
}

// release releases the lock and keeps the file. If the file were removed, two processes could hold locks on two
// different files of the same name.
func (l *fileLock) release() error { return l.file.Close() }
