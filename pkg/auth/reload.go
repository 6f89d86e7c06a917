package auth

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	// fileAge is how long a file is used without checking whether it has changed.
	fileAge = time.Second

	maxFile = 4 << 20
)

// reloaded holds the content of a file, which is read again when the file has changed.
type reloaded[T any] struct {
	what  string // name of the content in the log
	path  string
	parse func(path string, raw []byte) (T, error)
	log   *zap.Logger
	now   func() time.Time

	mu        sync.Mutex
	value     T           // content of the file when the file was last valid
	state     os.FileInfo // size and modification time of the file from which value was read
	checkedAt time.Time
	complaint string // why the file cannot be read now; "" while it can
}

func openReloaded[T any](key, what, path string, parse func(path string, raw []byte) (T, error), log *zap.Logger, now func() time.Time) (*reloaded[T], error) {
	f := &reloaded[T]{what: what, path: path, parse: parse, log: log, now: now, checkedAt: now()}
	var err error
	if f.state, err = os.Stat(path); err == nil {
		f.value, err = f.read()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	return f, nil
}

// current returns the parsed content of the file. While the file cannot be read or is invalid, it returns the last
// valid content, because a mistake in the file must not lock all users out.
func (f *reloaded[T]) current() T {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	if now.Sub(f.checkedAt) < fileAge {
		return f.value
	}
	f.checkedAt = now
	if err := f.refresh(); err != nil && f.complaint != err.Error() { // each new error is logged once, not at every try
		f.complaint = err.Error()
		f.log.Error(f.what+" could not be reloaded; the last valid ones are used",
			zap.String("file", f.path), zap.Error(err))
	}
	return f.value
}

// refresh reads the file if it has changed. After a failure it reads the file at each call, because perhaps only that
// read failed, and a token that was removed from the file must not stay valid until the file changes again.
func (f *reloaded[T]) refresh() error {
	state, err := os.Stat(f.path)
	if err != nil {
		return err
	}
	same := state.ModTime().Equal(f.state.ModTime()) && state.Size() == f.state.Size()
	if same && f.complaint == "" {
		return nil
	}
	value, err := f.read()
	if err != nil {
		return err
	}
	f.value, f.state, f.complaint = value, state, ""
	f.log.Info(f.what+" were reloaded", zap.String("file", f.path))
	return nil
}

func (f *reloaded[T]) read() (T, error) {
	var none T
	file, err := os.Open(f.path)
	if err != nil {
		return none, err
	}
	defer func() { _ = file.Close() }()
	raw, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	switch {
	case err != nil:
		return none, err
	case len(raw) > maxFile:
		return none, fmt.Errorf("%s is larger than %d bytes", f.path, maxFile)
	}
	return f.parse(f.path, raw)
}
