package deadletter

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Decoder decodes dead letters. It never changes and is safe for concurrent use.
type Decoder struct {
	patterns   Patterns
	operators  []mapping // the operators' rules, tried before the rules of the configuration
	configured []mapping
	dialects   []*dialect // the user's dialects, then the built-in ones
	words      map[string]dialectSet
	stacks     map[string]struct{} // names of the headers from which a dialect reads a stack trace
	uber       Patterns            // dead-letter topics in which the position is read from the record's key; see uberDLQ
	strips     map[string]ownNames
	keep       []*regexp.Regexp // names of headers that a replay keeps in any case
}

// New returns a Decoder. The patterns say which topics are dead-letter topics, because such a topic is never accepted
// as an original topic. Rules are tried in order. The error names every problem and has the kind entity.ErrInvalid.
func New(cfg Config, patterns Patterns) (*Decoder, error) {
	rules, errRules := compileRules("kafka.topic_map", patterns, cfg.TopicMap)
	own, errDialects := compileDialects(cfg.Dialects)
	uber, errUber := compileUber(cfg.UberDLQTopics)
	keep, errKeep := compileKeep(cfg.KeepHeaders)
	if err := errors.Join(errRules, errDialects, errUber, errKeep); err != nil {
		return nil, err
	}
	all := builtIn(own)
	return &Decoder{
		patterns: patterns, configured: rules, dialects: all, words: vocabulary(all), stacks: stackWords(all),
		uber: uber, strips: strippedForConfigured(cfg.Dialects), keep: keep,
	}, nil
}

// compileKeep compiles globs of headers' names. It refuses a glob that matches our own headers: every replay sets them.
func compileKeep(globs []string) ([]*regexp.Regexp, error) {
	out := make([]*regexp.Regexp, len(globs))
	var errs []error
	for i, glob := range globs {
		out[i] = regexp.MustCompile(`(?s)^` + strings.ReplaceAll(regexp.QuoteMeta(glob), `\*`, `.*`) + `$`)
		stem, _, star := strings.Cut(glob, "*")
		reason := ""
		switch {
		case glob == "":
			reason = "must not be empty"
		case strings.HasPrefix(stem, ourPrefix), star && strings.HasPrefix(ourPrefix, stem) && stem != "", slices.ContainsFunc(ourHeaders[:], out[i].MatchString):
			reason = fmt.Sprintf("%q matches headers that begin with %s: every replay removes them and sets its own", glob, ourPrefix)
		}
		if reason != "" {
			errs = append(errs, &entity.FieldError{Field: fmt.Sprintf("kafka.keep_headers[%d]", i), Reason: reason})
		}
	}
	return out, errors.Join(errs...)
}

// Dialects returns the names of the dialects that Decode can report: first those of the configured dialects, then those
// of the built-in dialects in the order of the function Dialects.
func (d *Decoder) Dialects() []string {
	var names []string
	for _, own := range d.dialects {
		if own.configured {
			names = append(names, own.name)
		}
	}
	return append(names, Dialects()...)
}

// WithRules returns a decoder that tries these rules first, in order, and then those of the configuration. The given
// rules replace those of an earlier call. WithRules returns the same errors as CheckRules.
func (d *Decoder) WithRules(rules []entity.TopicRule) (*Decoder, error) {
	mappings, err := compileRules("rules", d.patterns, mapRules(rules))
	if err != nil {
		return nil, err
	}
	changed := *d
	changed.operators = mappings
	return &changed, nil
}

// MaxRules is the maximum number of operators' rules.
const MaxRules = 1000

// CheckRules returns every problem with operators' rules. Each problem is a *entity.FieldError for rules[i].pattern or
// rules[i].original; errors.Join combines the problems.
func (d *Decoder) CheckRules(rules []entity.TopicRule) error {
	if len(rules) > MaxRules {
		return &entity.FieldError{Field: "rules", Reason: "must be 1000 or fewer"}
	}
	_, err := compileRules("rules", d.patterns, mapRules(rules))
	return err
}

// ConfiguredRules returns the rules of the configuration, in order.
func (d *Decoder) ConfiguredRules() []entity.TopicRule {
	rules := make([]entity.TopicRule, len(d.configured))
	for i, m := range d.configured {
		rules[i] = entity.TopicRule{Pattern: m.pattern, Original: m.original}
	}
	return rules
}

// Mapped returns the original topic of a dead-letter topic according to the rules alone; "" when no rule matches.
func (d *Decoder) Mapped(dlqTopic string) string {
	for _, rules := range [...][]mapping{d.operators, d.configured} {
		for i := range rules {
			if name := rules[i].apply(dlqTopic); d.possible(dlqTopic, name) {
				return name
			}
		}
	}
	return ""
}

// possible reports whether a topic of this name can be the original topic of records in the dead-letter topic. It can
// be when Kafka allows the name and the topic is not a dead-letter topic. If the original topic could be a dead-letter
// topic, a replay could return again and again.
func (d *Decoder) possible(dlqTopic, name string) bool {
	return entity.ValidTopic(name) && name != dlqTopic && !d.patterns.Match(name)
}

func mapRules(rules []entity.TopicRule) []MapRule {
	out := make([]MapRule, len(rules))
	for i, rule := range rules {
		out[i] = MapRule(rule)
	}
	return out
}

const patternField = "kafka.dlq_topic_pattern"

// Patterns say which topics are dead-letter topics.
type Patterns = entity.TopicPatterns

// ParsePatterns does the same as entity.ParseTopicPatterns. Its errors name the setting of the patterns.
func ParsePatterns(list ...string) (Patterns, error) {
	return entity.ParseTopicPatterns(patternField, list...)
}
