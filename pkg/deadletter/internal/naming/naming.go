// Package naming derives original topics from the names of dead-letter topics, according to the conventions of
// frameworks.
package naming

import (
	"slices"
	"strings"
)

// Guess is an original topic, and sometimes a consumer group, that the name of a dead-letter topic may contain.
type Guess struct{ Topic, Group string }

// Guesses returns the possible original topics of a dead-letter topic according to all supported conventions. The
// caller checks which of the returned topics exist in the cluster.
func Guesses(topic string) []Guess {
	var out []Guess
	if base, ok := retryBase(topic); ok {
		out = append(out, Guess{Topic: base})
	}
	for _, suffix := range [...]string{"-dlt", ".DLT", ".dlq", "-dlq"} {
		if base, ok := strings.CutSuffix(topic, suffix); ok {
			out = append(out, Guess{Topic: base})
		}
	}
	if base, ok := strings.CutSuffix(topic, "-dlq"); ok {
		if i := strings.LastIndexByte(base, '.'); i > 0 {
			out = append(out, Guess{Topic: base[:i], Group: base[i+1:]})
		}
	}
	if base, version, ok := versionedDLQ(topic); ok {
		out = append(out, Guess{Topic: base + ".v" + version}, Guess{Topic: base})
	}
	return append(out, errorTopic(topic)...)
}

// errorTopic reads error.<topic>.<group>. Topic and group may contain dots, so it returns a guess for every way to
// split the rest of the name.
func errorTopic(topic string) []Guess {
	rest, ok := strings.CutPrefix(topic, "error.")
	if !ok {
		return nil
	}
	var out []Guess
	for i := range len(rest) {
		if rest[i] == '.' && i > 0 && i < len(rest)-1 {
			out = append(out, Guess{Topic: rest[:i], Group: rest[i+1:]})
		}
	}
	return out
}

// retryBase returns the topic in <topic>-retry or <topic>-retry-<number>.
func retryBase(topic string) (string, bool) {
	trimmed := strings.TrimRight(topic, "0123456789")
	if trimmed != topic {
		if !strings.HasSuffix(trimmed, "-retry-") {
			return "", false
		}
		trimmed = trimmed[:len(trimmed)-1]
	}
	base, ok := strings.CutSuffix(trimmed, "-retry")
	return base, ok && base != ""
}

// versionedDLQ reads <base>.dlq.v<number>. Some producers append .dlq.v<number> to the name of the original topic;
// others insert .dlq before the version that the original name has.
func versionedDLQ(topic string) (base, version string, ok bool) {
	trimmed := strings.TrimRight(topic, "0123456789")
	base, ok = strings.CutSuffix(trimmed, ".dlq.v")
	return base, topic[len(trimmed):], ok && base != "" && trimmed != topic
}

// LooksDead reports whether a name looks like that of a dead-letter, retry or archive topic. The result is only a hint,
// because any topic may have such a name.
func LooksDead(topic string) bool {
	for _, suffix := range [...]string{"-dlt", ".DLT", ".dlq", "-dlq", ".dlq.archive"} {
		if strings.HasSuffix(topic, suffix) {
			return true
		}
	}
	for _, prefix := range [...]string{"dlq.", "dead-letter-topic-"} {
		if strings.HasPrefix(topic, prefix) {
			return true
		}
	}
	_, retry := retryBase(topic)
	_, _, versioned := versionedDLQ(topic)
	return retry || versioned || len(errorTopic(topic)) > 0
}

// Derives reports whether the name of the dead-letter topic can be derived from that of the original topic.
func Derives(deadLetter, original string) bool {
	if original == "" || !strings.Contains(deadLetter, original) {
		return false
	}
	return slices.ContainsFunc(Guesses(deadLetter), func(g Guess) bool { return g.Topic == original })
}
