package shop

import (
	"fmt"
	"io"
	"sync"
)

// logbook writes lines of several goroutines to the shop's log, so that the lines do not mix.
type logbook struct {
	mu sync.Mutex
	w  io.Writer
}

func newLogbook(w io.Writer) *logbook {
	if w == nil {
		w = io.Discard
	}
	return &logbook{w: w}
}

func (l *logbook) line(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.w, format+"\n", args...)
}
