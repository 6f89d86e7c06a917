package main

import (
	"fmt"
	"io"
	"sync"
)

// lines serializes the output of several parts, so that their lines do not mix. Every write must
// consist of whole lines.
type lines struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lines) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(text)
}

// say prints a line of the demo itself. It ignores write errors.
func (l *lines) say(format string, args ...any) { l.print(fmt.Sprintf("demo: "+format+"\n", args...)) }

func (l *lines) print(text string) { _, _ = io.WriteString(l, text) }

// prefixed returns a writer of lines that begin with the prefix.
func (l *lines) prefixed(prefix string) io.Writer { return prefixed{l, prefix} }

type prefixed struct {
	lines  *lines
	prefix string
}

func (p prefixed) Write(line []byte) (int, error) {
	p.lines.print(p.prefix + string(line))
	return len(line), nil
}
