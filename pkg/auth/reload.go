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
	// fileAge is how long a file counts without a look at it.
	fileAge = time.Second

	maxFile = 4 << 20
)

// reloaded is what a file says. It is read again when the file has changed.
type reloaded[T any] struct {
	what  string // for the log
	path  string
	parse func(path string, raw []byte) (T, error)
	log   *zap.Logger
	now   func() time.Time

	mu        sync.Mutex
	value     T           // of the file when it was last right
	state     os.FileInfo // of what value was read from
	checkedAt time.Time
	complaint string // why the file cannot be read at present; "" while it can
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

// current returns what the file says. While it cannot be read or is wrong, its former text counts: a mistake must not
// lock everybody out.
func (f *reloaded[T]) current() T {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	if now.Sub(f.checkedAt) < fileAge {
		return f.value
	}
	f.checkedAt = now
	if err := f.refresh(); err != nil && f.complaint != err.Error() { // once, not with every try
		f.complaint = err.Error()
		f.log.Error(f.what+" could not be read again, those from before count",
			zap.String("file", f.path), zap.Error(err))
	}
	return f.value
}

// refresh reads the file if it has changed. One that could not be read is tried each time: the reading alone may have
// failed, and a token that was taken away must not count until the next change.
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
	f.log.Info(f.what+" were read again", zap.String("file", f.path))
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
