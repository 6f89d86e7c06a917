package deadletter

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// mapping is a MapRule made ready.
type mapping struct {
	index    int // in the configured list, for errors
	re       *regexp.Regexp
	original string
}

// reference is $1 or ${1}. The expansion of package regexp is not used: it
// takes $1_x for a group named "1_x" and silently gives the empty string.
var reference = regexp.MustCompile(`\$(?:(\d+)|\{(\d+)\})`)

func compileRules(rules []MapRule) ([]mapping, error) {
	out := make([]mapping, 0, len(rules))
	var errs []error
	for i, rule := range rules {
		re, err := compileRule(rule.Pattern)
		if err != nil {
			errs = append(errs, ruleError(i, "pattern", err.Error()))
			continue
		}
		if err := checkOriginal(rule.Original, re.NumSubexp()); err != nil {
			errs = append(errs, ruleError(i, "original", err.Error()))
			continue
		}
		out = append(out, mapping{index: i, re: re, original: rule.Original})
	}
	return out, errors.Join(errs...)
}

func ruleError(i int, field, reason string) error {
	return &entity.FieldError{Field: fmt.Sprintf("kafka.topic_map[%d].%s", i, field), Reason: reason}
}

// compileRule makes every star of a glob a group, so that $1 works in both.
func compileRule(text string) (*regexp.Regexp, error) {
	p, err := entity.ParseTopicPattern(text)
	if err != nil {
		return nil, err
	}
	return p.Expression(), nil
}

func checkOriginal(original string, groups int) error {
	for _, ref := range reference.FindAllStringSubmatch(original, -1) {
		if n, err := strconv.Atoi(ref[1] + ref[2]); err != nil || n > groups {
			return fmt.Errorf("%q: %s names a group that the pattern does not have", original, ref[0])
		}
	}
	if !ValidTopic(reference.ReplaceAllString(original, "x")) {
		return fmt.Errorf("%q is not a topic name", original)
	}
	return nil
}

// constant returns the topic of a rule that has only one.
func (m mapping) constant() (string, bool) {
	return m.original, !strings.Contains(m.original, "$")
}

// apply returns the original of topic, or "" when the rule is about others.
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
	return reference.ReplaceAllStringFunc(m.original, func(ref string) string {
		n, err := strconv.Atoi(strings.Trim(ref, "${}"))
		if err != nil || n >= len(groups) {
			return ""
		}
		return groups[n]
	})
}

// mapped asks the operator's rules. A rule whose result cannot be an origin is
// passed over.
func (c *decoding) mapped() string {
	for _, m := range c.d.rules {
		if name := m.apply(c.topic); c.possible(name) {
			return name
		}
	}
	return ""
}
