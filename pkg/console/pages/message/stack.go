package message

import (
	"slices"
	"strings"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/format"
)

const maxStackLines = 1000

// stack is a stack trace whose library frames are folded.
type stack struct {
	Parts []stackPart
	Left  int64 // number of lines that are left out
}

type stackPart struct {
	Kind  string // "said" for text, "mine" for frames of the application, "folded" for frames of libraries
	Lines []string
	Open  bool // the folded part is shown unfolded at first
}

// foldStack parses a stack trace of the languages that isFrame knows. If prefixes is not empty, only frames with a
// prefix, at their beginning or after a slash or a parenthesis, count as the application's.
func foldStack(text string, prefixes []string) stack {
	if text == "" {
		return stack{}
	}
	lines := strings.Split(strings.TrimRight(strings.ReplaceAll(text, "\r\n", "\n"), "\n"), "\n")
	shown := min(len(lines), maxStackLines)
	s := stack{Left: int64(len(lines) - shown)}
	kind := "said"
	for _, line := range lines[:shown] {
		kind = kindOfLine(line, kind, prefixes)
		s.add(kind, format.Visible(line))
	}
	s.unfoldLast()
	return s
}

// unfoldLast unfolds the frames of the last cause when no frame is the application's.
func (s *stack) unfoldLast() {
	last := -1
	for i, p := range s.Parts {
		if p.Kind == "mine" {
			return
		}
		if p.Kind == "folded" {
			last = i
		}
	}
	if last >= 0 {
		s.Parts[last].Open = true
	}
}

func (s *stack) add(kind, line string) {
	if last := len(s.Parts) - 1; last >= 0 && s.Parts[last].Kind == kind {
		s.Parts[last].Lines = append(s.Parts[last].Lines, line)
		return
	}
	s.Parts = append(s.Parts, stackPart{Kind: kind, Lines: []string{line}})
}

// kindOfLine classifies a line. The parameter before is the kind of the line above: in some languages source code
// follows its frame.
func kindOfLine(line, before string, prefixes []string) string {
	trimmed := strings.TrimSpace(line)
	switch {
	case strings.HasPrefix(trimmed, "... ") && strings.HasSuffix(trimmed, " more"):
		return "folded"
	case !isFrame(line, trimmed):
		if before != "said" && line != "" && (line[0] == ' ' || line[0] == '\t') && !beginsCause(trimmed) {
			return before
		}
		return "said"
	case isMine(trimmed, prefixes):
		return "mine"
	default:
		return "folded"
	}
}

func beginsCause(trimmed string) bool {
	return beginsWith(trimmed, []string{"Caused by:", "Suppressed:", "--->", "[cause]", "Traceback "})
}

func beginsWith(text string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(text, p) })
}

// isFrame recognizes frames of the JVM, JavaScript and .NET ("at x"), Python ("File x"), PHP and Ruby ("#1 x", "from
// x") and Go (a function, with its file and a tab on the next line).
func isFrame(line, trimmed string) bool {
	switch {
	case beginsWith(trimmed, []string{"at ", `File "`, "from "}), strings.HasPrefix(line, "\t/"):
		return true
	case len(trimmed) > 1 && trimmed[0] == '#' && trimmed[1] >= '0' && trimmed[1] <= '9':
		return true
	default:
		open := strings.LastIndexByte(trimmed, '(')
		return open > 0 && line[0] != ' ' && line[0] != '\t' && strings.HasSuffix(trimmed, ")") && !strings.Contains(trimmed, " ") && strings.Contains(trimmed[:open], ".")
	}
}

var theirs = []string{
	"java.", "javax.", "jakarta.", "jdk.", "sun.", "com.sun.", "kotlin.", "kotlinx.", "scala.", "groovy.", "akka.",
	"org.apache.", "org.springframework.", "org.hibernate.", "org.postgresql.", "org.eclipse.", "org.jboss.", "org.slf4j.",
	"io.netty.", "io.vertx.", "io.smallrye.", "io.quarkus.", "io.micronaut.", "io.projectreactor.", "io.confluent.",
	"io.opentelemetry.", "io.micrometer.", "io.grpc.", "reactor.", "com.fasterxml.", "com.google.common.", "com.google.protobuf.",
	"com.google.gson.", "com.zaxxer.", "com.mysql.", "ch.qos.", "okhttp3.", "net.bytebuddy.",
	"System.", "Microsoft.", "Confluent.", "MassTransit.", "NServiceBus.", "Newtonsoft.", "Npgsql.",
	"runtime.", "runtime/", "net/http.", "reflect.", "sync.", "database/sql.", "testing.", "encoding/", "golang.org/x/",
	"github.com/segmentio/", "github.com/twmb/franz-go", "github.com/IBM/sarama", "github.com/confluentinc/", "github.com/ThreeDotsLabs/watermill",
	"node:", "internal/", "process.processTicksAndRejections", "Illuminate\\", "Symfony\\",
}

// theirPlaces are parts of the paths of libraries. A frame with such a path does not belong to the application.
var theirPlaces = []string{
	"node_modules", "node:internal", "(internal/", "site-packages", "dist-packages", "/lib/python", "/usr/local/go/src/",
	"/go/src/runtime/", "/pkg/mod/", "/gems/", "/vendor/",
}

func isMine(trimmed string, prefixes []string) bool {
	name := frameName(trimmed)
	if len(prefixes) > 0 {
		return slices.ContainsFunc(prefixes, func(p string) bool {
			return strings.HasPrefix(name, p) || strings.Contains(trimmed, "/"+p) || strings.Contains(trimmed, "("+p)
		})
	}
	return !beginsWith(name, theirs) &&
		!slices.ContainsFunc(theirPlaces, func(p string) bool { return strings.Contains(trimmed, p) })
}

// frameName returns the name of the function in a frame, without the prefixes that languages write before it.
func frameName(trimmed string) string {
	name := trimmed
	for _, before := range []string{"at ", "async ", "from ", `File "`} {
		name = strings.TrimPrefix(name, before)
	}
	if name != "" && name[0] == '#' {
		_, name, _ = strings.Cut(name, " ")
	}
	// The JVM writes a class loader or a module before a class: app//, java.base/.
	if slash := strings.IndexByte(name, '/'); strings.HasPrefix(trimmed, "at ") && slash > 0 {
		if open := strings.IndexByte(name, '('); open > slash && !strings.Contains(name[:slash], " ") {
			name = strings.TrimLeft(name[slash:], "/")
		}
	}
	return name
}
