package shop

import "strings"

// throwable is a Java exception with the parts that dead-letter headers show.
type throwable struct {
	class   string
	message string
	at      []string // stack frames, innermost first
	cause   *throwable
}

// root returns the innermost cause.
func (t *throwable) root() *throwable {
	for t.cause != nil {
		t = t.cause
	}
	return t
}

// trace returns Java's text for the exception and its causes.
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

// failure is the reason why a consumer did not accept a record.
type failure struct {
	thrown    *throwable
	temporary bool // the record may be accepted if the consumer tries again at once
	attempts  int  // number of tries

	// text of the header error; if it is not empty, the dead letter has only the plain headers original_topic and error
	plain string

	stage, executing string // Kafka Connect's names for the stage and the class in which the record failed
}
