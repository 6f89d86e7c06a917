package fingerprint

import "strings"

// RootClass returns the class of the root cause. The result is the given class, except in two cases: the given class is
// empty, or it only wraps another error whose class is in the stack trace.
func RootClass(class, stack string) string {
	known := clean(class, maxClass)
	if known != "" && !isWrapper(known) {
		return class
	}
	if root := causedBy(stack); root != "" {
		return root
	}
	if known == "" {
		return headClass(stack)
	}
	return class
}

// isWrapper reports whether a class only wraps another error.
func isWrapper(class string) bool {
	switch class {
	case "java.util.concurrent.CompletionException", "java.util.concurrent.ExecutionException",
		"java.lang.RuntimeException", "java.lang.Exception", "java.lang.reflect.InvocationTargetException",
		"java.lang.reflect.UndeclaredThrowableException",
		"org.springframework.kafka.listener.ListenerExecutionFailedException", "org.springframework.kafka.KafkaException",
		"org.springframework.messaging.MessageHandlingException", "org.springframework.messaging.MessagingException",
		"org.springframework.messaging.MessageDeliveryException",
		"org.apache.kafka.connect.errors.ConnectException", "org.apache.kafka.streams.errors.StreamsException",
		"io.smallrye.mutiny.CompositeException", "jakarta.ejb.EJBException", "javax.ejb.EJBException",
		"System.AggregateException", "System.Reflection.TargetInvocationException", "AggregateException":
		return true
	}
	return false
}

// maxCauses is the maximum number of causes in which causedBy looks for a class.
const maxCauses = 16

// causedBy returns the class of the last cause in a stack trace, leaving out causes without a class. A cause follows
// "Caused by:" in Java and "--->" in .NET.
func causedBy(stack string) string {
	rest := stack
	for range maxCauses {
		at, mark := strings.LastIndex(rest, "Caused by: "), len("Caused by: ")
		if net := strings.LastIndex(rest, "---> "); net > at {
			at, mark = net, len("---> ")
		}
		if at < 0 {
			return ""
		}
		if class := leadingClass(rest[at+mark:]); class != "" {
			return class
		}
		rest = rest[:at]
	}
	return ""
}

// headClass returns the class of the outermost error in a stack trace. In most languages the trace begins with this
// class; in Python its last line begins with it.
func headClass(stack string) string {
	return leadingClass(headLine(stack))
}

// headLine returns the line of a stack trace that contains the outermost error.
func headLine(stack string) string {
	line, _ := nextLine(strings.TrimSpace(stack))
	if strings.HasPrefix(line, "Traceback (most recent call last)") {
		line = lastLine(stack)
	}
	line = strings.TrimPrefix(line, `Exception in thread "main" `)
	return strings.TrimPrefix(line, "Uncaught ")
}

func leadingClass(text string) string {
	text = text[:min(len(text), maxClass)]
	end := run(text, 0, func(b byte) bool { return isAlnum(b) || strings.IndexByte("._$\\", b) >= 0 })
	name := strings.TrimRight(text[:end], ".")
	switch next := at(text, end); {
	case name == "" || !isLetter(name[0]), next != ':' && next != 0 && !isSpace(next) && next != '(':
		return ""
	case strings.ContainsAny(name, ".\\"), strings.HasSuffix(name, "Error"), strings.HasSuffix(name, "Exception"):
		return clean(name, maxClass)
	}
	return ""
}
