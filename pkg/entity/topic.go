package entity

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// MaxTopic is Kafka's limit for the length of a topic's name.
const MaxTopic = 249

// ValidTopic reports whether Kafka allows the name for a topic: it has 1 to 249 of the characters A-Z a-z 0-9 . _ - and
// is neither "." nor "..".
func ValidTopic(name string) bool {
	if name == "" || len(name) > MaxTopic || name == "." || name == ".." {
		return false
	}
	for i := range len(name) {
		if !topicByte(name[i]) {
			return false
		}
	}
	return true
}

// IsInternalTopic reports whether the name is one that Kafka and its tools give their own topics: it begins with "_".
// Kafka may also mark topics with other names as internal.
func IsInternalTopic(name string) bool { return strings.HasPrefix(name, "_") }

func topicByte(b byte) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || b == '.' || b == '_' || b == '-'
}

// TopicPatterns match names of topics. The zero value matches no topic. The patterns never change and are safe for
// concurrent use. Only the function that Or adds may change its results.
type TopicPatterns struct {
	list []TopicPattern
	with *TopicPatterns          // further patterns, which a topic must match in addition to list; nil for no further condition
	also func(topic string) bool // reports whether a topic that list does not match is matched nevertheless; nil when there are no such topics
}

// ParseTopicPatterns reads globs and anchored regular expressions, like ParseTopicPattern. Its errors have the kind
// ErrInvalid and name the field and each wrong pattern. An empty list is an error too.
func ParseTopicPatterns(field string, list ...string) (TopicPatterns, error) {
	if len(list) == 0 {
		return TopicPatterns{}, &FieldError{Field: field, Reason: "at least one pattern is needed"}
	}
	var out TopicPatterns
	var errs []error
	for _, text := range list {
		p, err := ParseTopicPattern(text)
		if err != nil {
			errs = append(errs, &FieldError{Field: field, Reason: err.Error()})
			continue
		}
		out.list = append(out.list, p)
	}
	if err := errors.Join(errs...); err != nil {
		return TopicPatterns{}, err
	}
	return out, nil
}

// And returns patterns that match a topic when both p and the patterns other match it.
func (p TopicPatterns) And(other TopicPatterns) TopicPatterns {
	if p.with != nil {
		other = p.with.And(other)
	}
	p.with = &other
	return p
}

// Or returns patterns that match two kinds of topics: those that p matches, and those for which the given function
// returns true when Match is called. Texts does not include topics of the second kind.
func (p TopicPatterns) Or(also func(topic string) bool) TopicPatterns {
	p.also = also
	return p
}

// Match reports whether the topic matches one of the patterns and, for each TopicPatterns that And added, one of its
// patterns too.
func (p TopicPatterns) Match(topic string) bool {
	if p.with != nil && !p.with.Match(topic) {
		return false
	}
	for i := range p.list {
		if p.list[i].Match(topic) {
			return true
		}
	}
	return p.also != nil && p.also(topic)
}

// Parts returns the TopicPatterns that And combined; without And it returns one TopicPatterns. A topic must match all
// Parts.
func (p TopicPatterns) Parts() []TopicPatterns {
	parts := []TopicPatterns{{list: p.list}}
	if p.with != nil {
		parts = append(parts, p.with.Parts()...)
	}
	return parts
}

// Texts returns the patterns as they were written. When And combined several TopicPatterns, it returns only those of
// the first.
func (p TopicPatterns) Texts() []string {
	texts := make([]string, len(p.list))
	for i := range p.list {
		texts[i] = p.list[i].text
	}
	return texts
}

// String returns the patterns as they were written, separated by commas. Several Parts are separated by an ampersand.
func (p TopicPatterns) String() string {
	text := strings.Join(p.Texts(), ", ")
	if p.with != nil {
		text += " & " + p.with.String()
	}
	return text
}

// Equal reports whether the patterns have the same texts in the same order.
func (p TopicPatterns) Equal(other TopicPatterns) bool {
	return slices.EqualFunc(p.Parts(), other.Parts(), func(a, b TopicPatterns) bool { return slices.Equal(a.Texts(), b.Texts()) })
}

// Sees reports whether the patterns match the message's original topic. When the original topic is not known, the
// patterns must match the dead-letter topic.
func (p TopicPatterns) Sees(m *Message) bool {
	if m.OriginalTopic != "" {
		return p.Match(m.OriginalTopic)
	}
	return p.Match(m.Source.Topic)
}

// TopicPattern matches names of topics. It is a glob when re is nil. Globs are matched without a regular expression,
// which is faster, because the original topic of every record is compared with globs.
type TopicPattern struct {
	text string
	re   *regexp.Regexp
}

// ParseTopicPattern reads a glob or an anchored regular expression. In a glob, * stands for one or more of A-Z a-z 0-9
// . _ - and nothing else is special. A regular expression begins with ^ and ends with $ and must match the whole name.
func ParseTopicPattern(text string) (TopicPattern, error) {
	if text == "" {
		return TopicPattern{}, errors.New("a pattern must not be empty")
	}
	if !isExpression(text) {
		return TopicPattern{text: text}, checkGlob(text)
	}
	re, err := compileExpression(text)
	return TopicPattern{text: text, re: re}, err
}

// Regular reports whether the pattern is a regular expression. A pattern that is not regular is a glob.
func (p TopicPattern) Regular() bool { return p.re != nil }

// Match reports whether the pattern matches the topic.
func (p TopicPattern) Match(topic string) bool {
	if p.re != nil {
		return p.re.MatchString(topic)
	}
	return matchGlob(p.text, topic)
}

// Expression returns the pattern as a regular expression that matches whole names. When the pattern is a glob, each
// star becomes a capturing group.
func (p TopicPattern) Expression() *regexp.Regexp {
	if p.re != nil {
		return p.re
	}
	parts := strings.Split(p.text, "*")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile("^" + strings.Join(parts, "([A-Za-z0-9._-]+)") + "$")
}

func isExpression(text string) bool {
	return strings.HasPrefix(text, "^") || strings.HasSuffix(text, "$")
}

// compileExpression compiles a regular expression that matches only whole names. Without its anchors, ^a|b$ would match
// every name that begins with a.
func compileExpression(text string) (*regexp.Regexp, error) {
	if len(text) < 2 || text[0] != '^' || text[len(text)-1] != '$' || escaped(text, len(text)-1) {
		return nil, fmt.Errorf("%q: a regular expression must begin with ^ and end with $", text)
	}
	if _, err := regexp.Compile(text); err != nil {
		return nil, fmt.Errorf("%q: %w", text, err)
	}
	return regexp.Compile("^(?:" + text[1:len(text)-1] + ")$")
}

// escaped reports whether the byte at i is escaped by a backslash.
func escaped(text string, i int) bool {
	before := strings.TrimRight(text[:i], `\`)
	return (i-len(before))%2 == 1
}

func checkGlob(text string) error {
	for _, r := range text {
		if r != '*' && (r > 0x7f || !topicByte(byte(r))) {
			return fmt.Errorf("%q: no topic name contains %q, and * is all that is special in a glob (a regular expression begins with ^ and ends with $)", text, r)
		}
	}
	return nil
}

// matchGlob compares the glob and the name from left to right. When a byte differs, it lets the last star match one
// byte more.
func matchGlob(glob, name string) bool {
	g, n, star, taken := 0, 0, -1, 0
	for n < len(name) {
		switch {
		case !topicByte(name[n]):
			return false
		case g < len(glob) && glob[g] == '*':
			star, taken = g, n+1
			g, n = g+1, n+1
		case g < len(glob) && glob[g] == name[n]:
			g, n = g+1, n+1
		case star >= 0:
			taken++
			g, n = star+1, taken
		default:
			return false
		}
	}
	return g == len(glob)
}

// AutoPause says until when, and why, automatic retry does not send the messages of an original topic.
type AutoPause struct {
	Until  time.Time
	Reason string
}
