package deadletter

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/dlq-manager/dlq-manager/pkg/deadletter/internal/reference"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// mapping is a MapRule after its compilation.
type mapping struct {
	pattern  string // the pattern as it was written
	re       *regexp.Regexp
	original string
}

// compileRules compiles rules. The error names every wrong rule by the parameter where, which is the key of the list in
// the configuration, and by the rule's index in the list.
func compileRules(where string, patterns Patterns, rules []MapRule) ([]mapping, error) {
	out := make([]mapping, 0, len(rules))
	var errs []error
	for i, rule := range rules {
		wrong := func(field, reason string) {
			errs = append(errs, &entity.FieldError{Field: fmt.Sprintf("%s[%d].%s", where, i, field), Reason: reason})
		}
		re, err := compileRule(rule.Pattern)
		if err != nil {
			wrong("pattern", err.Error())
			continue
		}
		if err := checkOriginal(rule.Original, re.NumSubexp()); err != nil {
			wrong("original", err.Error())
			continue
		}
		m := mapping{pattern: rule.Pattern, re: re, original: rule.Original}
		if name, constant := m.constant(); constant && patterns.Match(name) {
			wrong("original", fmt.Sprintf("%q is itself a dead-letter topic", name))
		}
		out = append(out, m)
	}
	return out, errors.Join(errs...)
}

// compileRule compiles the pattern of a rule. Every star of a glob becomes a group, so that $1 in the original topic
// can refer to a star.
func compileRule(text string) (*regexp.Regexp, error) {
	p, err := entity.ParseTopicPattern(text)
	if err != nil {
		return nil, err
	}
	return p.Expression(), nil
}

func checkOriginal(original string, groups int) error {
	if err := reference.Check(original, groups); err != nil {
		return err
	}
	if !entity.ValidTopic(reference.Replace(original, "x")) {
		return fmt.Errorf("%q is not a topic name", original)
	}
	return nil
}

// constant returns the original topic of a rule, and reports whether it is the same for all dead-letter topics.
func (m mapping) constant() (string, bool) { return m.original, !strings.Contains(m.original, "$") }

// apply returns the original topic of a dead-letter topic, or "" when the rule does not match.
func (m mapping) apply(topic string) string {
	if name, constant := m.constant(); constant {
		if m.re.MatchString(topic) {
			return name
		}
		return ""
	}
	groups := m.re.FindStringSubmatch(topic)
	if groups == nil {
		return ""
	}
	return reference.Expand(m.original, groups)
}
