package entity

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// MaxTopic is Kafka's limit for the length of a topic's name.
const MaxTopic = 249

// ValidTopic reports whether Kafka would allow the name: 1 to 249 of A-Z a-z 0-9 . _ - and neither "." nor "..".
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

func topicByte(b byte) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || b == '.' || b == '_' || b == '-'
}

// TopicPatterns match topic names. The zero value matches none. They never change and are safe for concurrent use.
type TopicPatterns struct {
	list []TopicPattern
	with *TopicPatterns // must match too; nil: no further condition
}

// ParseTopicPatterns reads globs and anchored regular expressions, as ParseTopicPattern does. Errors name field
// and each pattern that is wrong, and are of kind ErrInvalid; no pattern at all is an error too.
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

// And returns patterns that match the topics that both p and other match.
func (p TopicPatterns) And(other TopicPatterns) TopicPatterns {
	if p.with != nil {
		other = p.with.And(other)
	}
	p.with = &other
	return p
}

// Match reports whether any of the patterns matches the topic, and any of each that And added.
func (p TopicPatterns) Match(topic string) bool {
	if p.with != nil && !p.with.Match(topic) {
		return false
	}
	for i := range p.list {
		if p.list[i].Match(topic) {
			return true
		}
	}
	return false
}

// Parts returns the patterns that And combined, at least one. A topic must match all of them.
func (p TopicPatterns) Parts() []TopicPatterns {
	parts := []TopicPatterns{{list: p.list}}
	if p.with != nil {
		parts = append(parts, p.with.Parts()...)
	}
	return parts
}

// Texts returns the patterns as they were written. After And, these are only the patterns of the first of the Parts.
func (p TopicPatterns) Texts() []string {
	texts := make([]string, len(p.list))
	for i := range p.list {
		texts[i] = p.list[i].text
	}
	return texts
}

// String returns the patterns as they were written, separated by commas, with an ampersand between the Parts.
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

// Sees reports whether the patterns match the message's original topic or, while that is not known, its dead-letter
// topic.
func (p TopicPatterns) Sees(m *Message) bool {
	if m.OriginalTopic != "" {
		return p.Match(m.OriginalTopic)
	}
	return p.Match(m.Source.Topic)
}

// TopicPattern matches topic names. It is a glob when re is nil; globs have their own matcher for speed, because
// every record's origin is compared with them.
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

// Regular reports whether the pattern is a regular expression; else it is a glob.
func (p TopicPattern) Regular() bool { return p.re != nil }

// Match reports whether the pattern matches the topic.
func (p TopicPattern) Match(topic string) bool {
	if p.re != nil {
		return p.re.MatchString(topic)
	}
	return matchGlob(p.text, topic)
}

// Expression returns the pattern as a regular expression that matches whole names. For a glob, every star is a group.
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

// compileExpression anchors the whole expression: ^a|b$ as written would match everything that begins with a.
func compileExpression(text string) (*regexp.Regexp, error) {
	if len(text) < 2 || text[0] != '^' || text[len(text)-1] != '$' || escaped(text, len(text)-1) {
		return nil, fmt.Errorf("%q: a regular expression must begin with ^ and end with $", text)
	}
	if _, err := regexp.Compile(text); err != nil {
		return nil, fmt.Errorf("%q: %w", text, err)
	}
	return regexp.Compile("^(?:" + text[1:len(text)-1] + ")$")
}

// escaped reports whether backslashes make the byte at i a plain character.
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

// matchGlob compares both texts from left to right; on a mismatch, the last star takes one byte more.
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
