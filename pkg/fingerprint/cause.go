package fingerprint

import (
	"strings"
	"unicode/utf8"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Cause returns, on one line, the text that describes a failure to users best: the message of the innermost cause. If
// the class of that cause differs from the given class, the text begins with the class of the cause. The cause is read
// from the stack trace, or from the message if there is no trace. If neither contains a cause, Cause removes from the
// error message the texts with which frameworks wrap the message of the cause. If the message is UnknownError, the
// outermost error of the trace takes the place of a missing cause. For a cause without a message, Cause returns the
// cause's class; if that class is the given class, it returns the error message.
func Cause(class, message, stack string) string {
	return oneLine(innermost(class, message, stack))
}

func oneLine(text string) string {
	if utf8.ValidString(text) && !strings.ContainsAny(text, "\n\r\t") {
		return text
	}
	return clean(text, maxMessage)
}

func innermost(class, message, stack string) string {
	said := telling(message)
	stack = stack[:min(len(stack), maxStack)]
	if stack == "" {
		stack = message[:min(len(message), maxMessage)]
	}
	line := causeLine(stack)
	if line == "" && said == entity.UnknownError {
		line = headLine(stack)
	}
	if cause, text := splitClass(line); cause != "" {
		switch known := simpleName(cause) == simpleName(class); {
		case text != "" && known:
			return unwrap(class, text)
		case text != "":
			return simpleName(cause) + ": " + unwrap(cause, text)
		case !known:
			return simpleName(cause)
		}
	}
	return unwrap(class, said)
}

// Lines between two exceptions in Python's stack traces. The exception before the line pythonCause is the cause of the
// exception after the line. The exception before the line pythonContext is not the cause: the exception after that line
// occurred in the handler of the first one.
const (
	pythonCause   = "The above exception was the direct cause of the following exception:"
	pythonContext = "During handling of the above exception, another exception occurred:"
)

// causeLine returns the line of the innermost cause in a stack trace; "" when the trace contains no chain of causes. An
// indented "Caused by" of Java is ignored, because it belongs to a suppressed exception.
func causeLine(stack string) string {
	java, net := strings.LastIndex(stack, "\nCaused by: "), strings.LastIndex(stack, "---> ")
	switch {
	case java >= 0 && java > net:
		return firstLine(stack[java+len("\nCaused by: "):])
	case net >= 0:
		line := firstLine(stack[net+len("---> "):])
		return strings.TrimPrefix(line, "(Inner Exception #0) ")
	}
	if at := strings.LastIndex(stack, pythonContext); at >= 0 {
		stack = stack[at+len(pythonContext):]
	}
	if first, _, chained := strings.Cut(stack, pythonCause); chained {
		return lastLine(first)
	}
	return ""
}

func firstLine(text string) string {
	line, _ := nextLine(text)
	return line
}

func lastLine(text string) string {
	text = trim(text)
	return trim(text[strings.LastIndexAny(text, "\n\r")+1:])
}

// splitClass splits a line such as "java.net.ConnectException: Connection refused". text is "" when the line has no
// text after the class, or only Java's "null"; class is "" when the line does not begin with a class.
func splitClass(line string) (class, text string) {
	class = leadingClass(line)
	if class == "" {
		return "", ""
	}
	text, _ = strings.CutPrefix(line[len(class):], ":")
	if text = trim(text); text == "null" {
		text = ""
	}
	return class, text
}

func simpleName(class string) string { return class[strings.LastIndexAny(class, `.$\`)+1:] }

// wrappers are texts that Spring adds before the message of the exception that a listener threw. A wrapper is the text
// from begin to end.
var wrappers = [...]struct{ begin, end string }{
	{"Listener method '", "threw exception; "},
	{"Listener failed", "; "},
	{"Listener threw exception", "; "},
	{"", "nested exception is "},
}

// unwrap removes wrappers from the beginning of a message. It also removes the name of a class there, if it is the given
// class or if the name of another class follows.
func unwrap(class, text string) string {
	for before := ""; before != text; {
		before = text
		for _, w := range wrappers {
			rest, wrapped := strings.CutPrefix(text, w.begin)
			if _, inner, found := strings.Cut(rest, w.end); wrapped && found && inner != "" && inner != "null" {
				text = inner
			}
		}
		outer, inner := splitClass(text)
		if next, _ := splitClass(inner); inner != "" && (outer == class || next != "") {
			text = inner
		}
	}
	return text
}
