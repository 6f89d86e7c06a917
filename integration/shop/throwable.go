package shop

import "strings"

// throwable is a Java exception, as far as dead-letter headers show one.
type throwable struct {
	class   string
	message string
	at      []string // stack frames, innermost first
	cause   *throwable
}

// root is the exception that began it all.
func (t *throwable) root() *throwable {
	for t.cause != nil {
		t = t.cause
	}
	return t
}

// trace is the text that Java prints for the exception and its causes.
func (t *throwable) trace() string {
	var text strings.Builder
	for e := t; e != nil; e = e.cause {
		if e != t {
			text.WriteString("Caused by: ")
		}
		text.WriteString(e.class + ": " + e.message + "\n")
		for _, frame := range e.at {
			text.WriteString("\tat " + frame + "\n")
		}
		if e != t {
			text.WriteString("\t... 12 more\n")
		}
	}
	return text.String()
}

// failure is why a consumer did not accept a record.
type failure struct {
	thrown    *throwable
	temporary bool // trying again at once could help, so the consumer does
	attempts  int  // tries that were made

	plain string // set: dead-letter with two plain headers and this text

	stage, executing string // where Kafka Connect was
}
