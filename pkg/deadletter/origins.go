package deadletter

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Values of kafka.origin_trust.
const (
	// TrustHeader lets a header name any original topic that no declaration contradicts.
	TrustHeader = "header"
	// TrustDeclared lets a header name declared original topics only.
	TrustDeclared = "declared"
)

// OriginRule declares which original topics the records of dead-letter topics may name.
type OriginRule struct {
	// DLQ is a glob of dead-letter topics.
	DLQ string `mapstructure:"dlq"`
	// Originals are globs of topics. $1 or ${1} is the text that the first star of DLQ matched, $2 the second's.
	Originals []string `mapstructure:"originals"`
}

// Origins are declarations of original topics; only declarations that Or adds may change. The zero value declares no
// topic and trusts the topics that headers name.
type Origins struct {
	rules        []originRule
	declaredOnly bool
	also         func(dlqTopic, original string) entity.Declaration // nil: the rules alone declare
}

type originRule struct {
	dlq       *regexp.Regexp
	originals []string
}

// NewOrigins reads a configuration. Errors name every wrong field and are of kind entity.ErrInvalid.
func NewOrigins(cfg Config) (Origins, error) {
	o := Origins{declaredOnly: cfg.OriginTrust == TrustDeclared}
	var errs []error
	wrong := func(field, format string, args ...any) {
		errs = append(errs, &entity.FieldError{Field: field, Reason: fmt.Sprintf(format, args...)})
	}
	if cfg.OriginTrust != "" && cfg.OriginTrust != TrustHeader && !o.declaredOnly {
		wrong("kafka.origin_trust", "%q is neither %s nor %s", cfg.OriginTrust, TrustHeader, TrustDeclared)
	}
	for i, rule := range cfg.Origins {
		where := fmt.Sprintf("kafka.origins[%d]", i)
		dlq, err := compileGlob(rule.DLQ)
		if err != nil {
			wrong(where+".dlq", "%v", err)
			continue
		}
		if len(rule.Originals) == 0 {
			wrong(where+".originals", "at least one glob is needed")
		}
		for n, original := range rule.Originals {
			if err := checkOriginals(original, dlq.NumSubexp()); err != nil {
				wrong(fmt.Sprintf("%s.originals[%d]", where, n), "%v", err)
			}
		}
		o.rules = append(o.rules, originRule{dlq: dlq, originals: rule.Originals})
	}
	return o, errors.Join(errs...)
}

// compileGlob reads a glob as an expression in which every star is a group.
func compileGlob(text string) (*regexp.Regexp, error) {
	p, err := entity.ParseTopicPattern(text)
	if err != nil {
		return nil, err
	}
	if p.Regular() {
		return nil, fmt.Errorf("%q: must be a glob, not a regular expression", text)
	}
	return p.Expression(), nil
}

func checkOriginals(original string, groups int) error {
	if err := checkReferences(original, groups); err != nil {
		return err
	}
	_, err := compileGlob(reference.ReplaceAllString(original, "x"))
	if err != nil {
		return fmt.Errorf("%q is not a glob of topics", original)
	}
	return nil
}

// Or returns the declarations of o together with those of the function also. An original topic that at least one of
// both declares is declared.
func (o Origins) Or(also func(dlqTopic, original string) entity.Declaration) Origins {
	o.also = also
	return o
}

// Declaration says whether records of a dead-letter topic may name an original topic.
func (o Origins) Declaration(dlqTopic, original string) entity.Declaration {
	found := entity.NotDeclared
	for _, rule := range o.rules {
		groups := rule.dlq.FindStringSubmatch(dlqTopic)
		if groups == nil {
			continue
		}
		if slices.ContainsFunc(rule.originals, func(glob string) bool { return matches(expand(glob, groups), original) }) {
			return entity.Declared
		}
		found = entity.Contradicted
	}
	if o.also != nil {
		if other := o.also(dlqTopic, original); other != entity.NotDeclared {
			return other
		}
	}
	return found
}

// matches compares a topic with a glob. The text that replaced a reference in the glob may contain stars, which match
// like other stars.
func matches(glob, topic string) bool {
	p, err := entity.ParseTopicPattern(glob)
	return err == nil && !p.Regular() && p.Match(topic)
}

// MayDeclare reports whether a declaration or a configured mapping could name a topic that pattern matches. In doubt it
// returns true, because its callers warn of settings that have no effect together: in doubt there is no warning.
func MayDeclare(cfg Config, pattern string) bool {
	wanted, err := entity.ParseTopicPattern(pattern)
	if err != nil || wanted.Regular() {
		return true
	}
	overlaps := func(declared string) bool {
		glob := reference.ReplaceAllString(declared, "*")
		return matches(glob, sample(pattern)) || wanted.Match(sample(glob))
	}
	return slices.ContainsFunc(cfg.Origins, func(r OriginRule) bool { return slices.ContainsFunc(r.Originals, overlaps) }) ||
		slices.ContainsFunc(cfg.TopicMap, func(r MapRule) bool { return overlaps(r.Original) })
}

// sample returns a topic that a glob matches.
func sample(glob string) string { return strings.ReplaceAll(glob, "*", "x") }
