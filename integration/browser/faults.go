package browser

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
)

// faults collects the errors of a tab's pages. Its methods are safe for concurrent use.
type faults struct {
	mu      sync.Mutex
	found   []string
	allowed []string
}

// note records an event of the tab if the event is an error or opens a dialog. The browser reports a violation of the
// Content-Security-Policy, and an answer with an error status, as an entry of its log.
func (f *faults) note(event any) {
	switch e := event.(type) {
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError {
			f.add(fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL))
		}
	case *runtime.EventExceptionThrown:
		f.add("exception: " + thrown(e.ExceptionDetails))
	case *page.EventJavascriptDialogOpening:
		f.add("dialog: " + e.Message)
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeAssert {
			f.add("console: " + arguments(e.Args))
		}
	}
}

func thrown(d *runtime.ExceptionDetails) string {
	text := fmt.Sprintf("%s %s:%d", d.Text, d.URL, d.LineNumber+1)
	if d.Exception != nil {
		text += " " + d.Exception.Description
	}
	return text
}

func arguments(args []*runtime.RemoteObject) string {
	var all []string
	for _, a := range args {
		if a.Description != "" {
			all = append(all, a.Description)
		} else {
			all = append(all, string(a.Value))
		}
	}
	return strings.Join(all, " ")
}

func (f *faults) add(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.found = append(f.found, text)
}

func (f *faults) allow(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.allowed = append(f.allowed, text)
}

// left returns the faults that the test did not allow.
func (f *faults) left() (left []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fault := range f.found {
		if !slices.ContainsFunc(f.allowed, func(a string) bool { return strings.Contains(fault, a) }) {
			left = append(left, fault)
		}
	}
	return left
}
