// Package filelock has locks between processes.
package filelock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// Lock is a lock between processes. When the process that holds the lock ends, the lock is released.
type Lock struct{ file *os.File }

// errLocked means that another process holds the lock.
var errLocked = errors.New("locked by another process")

// Wait waits until it has the lock on a file. It has no time limit, because other processes hold this lock only for
// short times.
func Wait(path string) (*Lock, error) { return flock(path, syscall.LOCK_EX) }

// Try takes the lock, or returns an error when another process holds it.
func Try(path string) (*Lock, error) {
	return flock(path, syscall.LOCK_EX|syscall.LOCK_NB)
}

// WaitUntil waits for a lock that may be held for minutes, until ctx ends.
func WaitUntil(ctx context.Context, path string) (*Lock, error) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		lock, err := Try(path)
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

func flock(path string, how int) (*Lock, error) {
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
		return &Lock{file: file}, nil
	}
	file.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, errLocked
	}
	return nil, fmt.Errorf("lock %s: %w", path, err)
}

// Release releases the lock and keeps the file. If the file were removed, two processes could hold locks on two
// different files of the same name.
func (l *Lock) Release() error { return l.file.Close() }
