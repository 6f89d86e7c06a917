package shop

import (
	"fmt"
	"io"
	"sync"
)

// logbook writes whole lines for several goroutines.
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
