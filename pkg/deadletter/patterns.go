package deadletter

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

const patternField = "kafka.dlq_topic_pattern"

// Patterns say which topics are dead-letter topics. The zero value matches
// none. Patterns never change and are safe for concurrent use.
type Patterns struct{ list []pattern }

// ParsePatterns reads globs and anchored regular expressions. In a glob, *
// stands for one or more of A-Z a-z 0-9 . _ - and nothing else is special. A
// regular expression begins with ^ and ends with $ and must match the whole
// name. Errors name the setting and each pattern that is wrong, and are of kind
// entity.ErrInvalid; no pattern at all is an error too.
func ParsePatterns(list ...string) (Patterns, error) {
	if len(list) == 0 {
		return Patterns{}, &entity.FieldError{Field: patternField, Reason: "at least one pattern is needed"}
	}
	var out Patterns
	var errs []error
	for _, text := range list {
		p, err := parsePattern(text)
		if err != nil {
			errs = append(errs, &entity.FieldError{Field: patternField, Reason: err.Error()})
			continue
		}
		out.list = append(out.list, p)
	}
	if err := errors.Join(errs...); err != nil {
		return Patterns{}, err
	}
	return out, nil
}

// Match reports whether topic is a dead-letter topic.
func (p Patterns) Match(topic string) bool {
	for i := range p.list {
		if p.list[i].match(topic) {
			return true
		}
	}
	return false
}

// String returns the patterns as they were written, separated by commas.
func (p Patterns) String() string {
	texts := make([]string, len(p.list))
	for i := range p.list {
		texts[i] = p.list[i].text
	}
	return strings.Join(texts, ", ")
}

// pattern is a glob when re is nil. Globs have their own matcher because every
// record's origin is held against them.
type pattern struct {
	text string
	re   *regexp.Regexp
}

func parsePattern(text string) (pattern, error) {
	if text == "" {
		return pattern{}, errors.New("a pattern must not be empty")
	}
	if !isExpression(text) {
		return pattern{text: text}, checkGlob(text)
	}
	re, err := compileExpression(text)
	return pattern{text: text, re: re}, err
}

func (p *pattern) match(topic string) bool {
	if p.re != nil {
		return p.re.MatchString(topic)
	}
	return matchGlob(p.text, topic)
}

func isExpression(text string) bool {
	return strings.HasPrefix(text, "^") || strings.HasSuffix(text, "$")
}

// compileExpression anchors the whole expression: ^a|b$ as written would match
// everything that begins with a.
func compileExpression(text string) (*regexp.Regexp, error) {
	if len(text) < 2 || text[0] != '^' || text[len(text)-1] != '$' || escaped(text, len(text)-1) {
		return nil, fmt.Errorf("%q: a regular expression must begin with ^ and end with $", text)
	}
	if _, err := regexp.Compile(text); err != nil {
		return nil, fmt.Errorf("%q: %w", text, err)
	}
	return regexp.Compile("^(?:" + text[1:len(text)-1] + ")$")
}

// escaped reports whether the byte at i is made a plain character by backslashes.
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

// matchGlob walks both texts once and, when stuck, lets the last star take one
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
