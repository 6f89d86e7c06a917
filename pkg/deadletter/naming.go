package deadletter

import (
	"slices"
	"strings"

	"github.com/dlq-manager/dlq-manager/pkg/deadletter/internal/headervalue"
)

// guess is an original topic, and sometimes a consumer group, derived from a dead-letter topic's name.
type guess struct{ topic, group string }

// guesses returns the original topics that the name can stand for by any supported convention; the topics of the
// cluster decide between them.
func guesses(topic string) []guess {
	var out []guess
	if base, ok := retryBase(topic); ok {
		out = append(out, guess{topic: base})
	}
	for _, suffix := range [...]string{"-dlt", ".DLT", ".dlq", "-dlq"} {
		if base, ok := strings.CutSuffix(topic, suffix); ok {
			out = append(out, guess{topic: base})
		}
	}
	if base, ok := strings.CutSuffix(topic, "-dlq"); ok {
		if i := strings.LastIndexByte(base, '.'); i > 0 {
			out = append(out, guess{topic: base[:i], group: base[i+1:]})
		}
	}
	if base, version, ok := versionedDLQ(topic); ok {
		out = append(out, guess{topic: base + ".v" + version}, guess{topic: base})
	}
	return append(out, errorTopicGuesses(topic)...)
}

// errorTopicGuesses reads error.<topic>.<group>. Both may contain dots, so every split is a guess.
func errorTopicGuesses(topic string) []guess {
	rest, ok := strings.CutPrefix(topic, "error.")
	if !ok {
		return nil
	}
	var out []guess
	for i := range len(rest) {
		if rest[i] == '.' && i > 0 && i < len(rest)-1 {
			out = append(out, guess{topic: rest[:i], group: rest[i+1:]})
		}
	}
	return out
}

// retryBase reads <topic>-retry and <topic>-retry-<number>.
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

// versionedDLQ reads <base>.dlq.v<number>. Some producers append .dlq.v<number> to the name of the original topic,
// others insert .dlq before the version in its name.
func versionedDLQ(topic string) (base, version string, ok bool) {
	trimmed := strings.TrimRight(topic, "0123456789")
	base, ok = strings.CutSuffix(trimmed, ".dlq.v")
	return base, topic[len(trimmed):], ok && base != "" && trimmed != topic
}

// looksDead reports whether a name looks like that of a dead-letter, retry or archive topic. It is only a hint.
func looksDead(topic string) bool {
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
	return retry || versioned || len(errorTopicGuesses(topic)) > 0
}

// named returns the original topic from the dead-letter topic's name if exactly one candidate is in the cluster, else
// "".
func (c *decoding) named() string {
	found := ""
	for _, g := range guesses(c.topic) {
		if g.topic == found || !c.possible(g.topic) || looksDead(g.topic) || !c.exists(g.topic) {
			continue
		}
		if found != "" {
			return ""
		}
		found = g.topic
	}
	return found
}

// namedAfter reports whether the dead-letter topic's name can be derived from that original.
func namedAfter(deadLetter, original string) bool {
	if original == "" || !strings.Contains(deadLetter, original) {
		return false
	}
	return slices.ContainsFunc(guesses(deadLetter), func(g guess) bool { return g.topic == original })
}

// groupFromName returns the consumer group in the dead-letter topic's name, once the original topic is known.
func groupFromName(deadLetter, original string) string {
	if original == "" || !strings.Contains(deadLetter, original) || len(deadLetter) <= len(original) {
		return ""
	}
	for _, g := range guesses(deadLetter) {
		if g.topic == original && g.group != "" && len(g.group) <= MaxConsumerGroup {
			return headervalue.Text([]byte(g.group), MaxConsumerGroup)
		}
	}
	return ""
}
