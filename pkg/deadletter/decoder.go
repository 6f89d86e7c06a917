package deadletter

import (
	"errors"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Decoder reads dead letters. It never changes and is safe for concurrent use.
type Decoder struct {
	patterns   Patterns
	operators  []mapping // the operators' rules, tried before the rules of the configuration
	configured []mapping
	dialects   []*dialect // the user's dialects, then the built-in ones
	words      map[string]dialectSet
	stacks     map[string]struct{} // names of headers with stack traces
	uber       Patterns            // topics whose keys are read
	strips     map[string]ownNames
}

// New returns a decoder. Patterns say which topics are dead-letter topics: such a topic is never an origin.
// Rules are tried in order. Errors name every fault and are of kind entity.ErrInvalid.
func New(cfg Config, patterns Patterns) (*Decoder, error) {
	rules, errRules := compileRules("kafka.topic_map", patterns, cfg.TopicMap)
	own, errDialects := compileDialects(cfg.Dialects)
	uber, errUber := compileUber(cfg.UberDLQTopics)
	if err := errors.Join(errRules, errDialects, errUber); err != nil {
		return nil, err
	}
	all := builtIn(own)
	return &Decoder{
		patterns: patterns, configured: rules, dialects: all, words: vocabulary(all), stacks: stackWords(all),
		uber: uber, strips: strippedForConfigured(cfg.Dialects),
	}, nil
}

// Dialects returns the dialects that Decode can report: first the configured dialects, then the built-in dialects by
// certainty.
func (d *Decoder) Dialects() []string {
	var names []string
	for _, own := range d.dialects {
		if own.configured {
			names = append(names, own.name)
		}
	}
	return append(names, Dialects()...)
}

// WithRules returns a decoder that tries these rules first, in order, and then those of the configuration. They replace
// the rules of an earlier WithRules. It returns the error of CheckRules for these rules.
func (d *Decoder) WithRules(rules []entity.TopicRule) (*Decoder, error) {
	mappings, err := compileRules("rules", d.patterns, mapRules(rules))
	if err != nil {
		return nil, err
	}
	changed := *d
	changed.operators = mappings
	return &changed, nil
}

// MaxRules is how many rules operators may keep.
const MaxRules = 1000

// CheckRules reports every error of operators' rules: joined *entity.FieldError of rules[i].pattern or .original.
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

// Mapped returns the original topic that the rules alone give for a dead-letter topic; "" when no rule matches.
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

// possible reports whether a topic can be the origin of a dead-letter topic's records: Kafka allows the name and it
// is no dead-letter topic. That prevents replays in a loop.
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
