package deadletter

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/dlq-manager/dlq-manager/pkg/deadletter/internal/reference"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Values of kafka.origin_trust.
const (
	// TrustHeader accepts any original topic that a header names, unless a declaration contradicts it.
	TrustHeader = "header"
	// TrustDeclared accepts an original topic that a header names only if it is declared.
	TrustDeclared = "declared"
)

// OriginRule declares which original topics the records of dead-letter topics may name.
type OriginRule struct {
	// DLQ is a glob that matches dead-letter topics.
	DLQ string `mapstructure:"dlq"`
	// Originals are globs that match original topics. $1 or ${1} is the text that the first star of DLQ matched, $2
	// that of the second star.
	Originals []string `mapstructure:"originals"`
}

// Origins are the declarations of original topics. The zero value declares no topic and trusts the topics that headers
// name. Origins never change; only the function that Or adds may change its results.
type Origins struct {
	rules        []originRule
	declaredOnly bool
	also         func(dlqTopic, original string) entity.Declaration // function that declares further topics; nil when the rules alone declare
}

type originRule struct {
	dlq       *regexp.Regexp
	originals []string
}

// NewOrigins compiles the declarations of a configuration. The error names every wrong field and has the kind
// entity.ErrInvalid.
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

// compileGlob compiles a glob to a regular expression in which every star is a group.
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
	if err := reference.Check(original, groups); err != nil {
		return err
	}
	_, err := compileGlob(reference.Replace(original, "x"))
	if err != nil {
		return fmt.Errorf("%q is not a glob of topics", original)
	}
	return nil
}

// Or returns the declarations of o together with those of the given function. An original topic is declared if o or the
// function declares it.
func (o Origins) Or(also func(dlqTopic, original string) entity.Declaration) Origins {
	o.also = also
	return o
}

// Declaration says whether the original topic is declared for the dead-letter topic, whose records name it.
func (o Origins) Declaration(dlqTopic, original string) entity.Declaration {
	found := entity.NotDeclared
	for _, rule := range o.rules {
		groups := rule.dlq.FindStringSubmatch(dlqTopic)
		if groups == nil {
			continue
		}
		if slices.ContainsFunc(rule.originals, func(glob string) bool { return matches(reference.Expand(glob, groups), original) }) {
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

// matches reports whether a topic matches a glob. A star in the text that replaced a reference works like any other
// star.
func matches(glob, topic string) bool {
	p, err := entity.ParseTopicPattern(glob)
	return err == nil && !p.Regular() && p.Match(topic)
}

// MayDeclare reports whether a declaration or a rule of the configuration could name a topic that matches the pattern.
// When MayDeclare cannot decide, it returns true, because callers warn when it returns false, and they must not warn
// without reason.
func MayDeclare(cfg Config, pattern string) bool {
	wanted, err := entity.ParseTopicPattern(pattern)
	if err != nil || wanted.Regular() {
		return true
	}
	overlaps := func(declared string) bool {
		glob := reference.Replace(declared, "*")
		return matches(glob, sample(pattern)) || wanted.Match(sample(glob))
	}
	return slices.ContainsFunc(cfg.Origins, func(r OriginRule) bool { return slices.ContainsFunc(r.Originals, overlaps) }) ||
		slices.ContainsFunc(cfg.TopicMap, func(r MapRule) bool { return overlaps(r.Original) })
}

// sample returns an example of the topics that a glob matches.
func sample(glob string) string { return strings.ReplaceAll(glob, "*", "x") }
