package fingerprint

import (
	"regexp"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Fingerprinter computes fingerprints. It is immutable and safe for concurrent use.
type Fingerprinter struct {
	rules  []rule
	frames []string
}

type rule struct {
	name, title string
	pattern     *regexp.Regexp
}

// New returns a Fingerprinter with the configuration, or the error of its Validate.
func New(cfg Config) (*Fingerprinter, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	m := &Fingerprinter{frames: cfg.Frames}
	for _, r := range cfg.Rules {
		pattern, err := regexp.Compile(r.Pattern)
		if err != nil {
			return nil, err
		}
		m.rules = append(m.rules, rule{name: r.Name, title: r.Title, pattern: pattern})
	}
	return m, nil
}

// Fingerprint returns the fingerprint of a failure, of which any part may be empty. The same texts and configuration
// always give the same fingerprint, and the time is linear in the length of the texts.
//
// The fingerprint's class is the RootClass of the given class and stack trace. If a rule matches, the rule gives the
// title, and frames are ignored. Otherwise the title is the Title of the cause, and the fingerprint contains the five
// innermost frames of the application. The id of the error group depends on the Title of the message instead, because
// better ways to find the cause must not change ids.
func (m *Fingerprinter) Fingerprint(class, message, stack string) entity.Fingerprint {
	stack = stack[:min(len(stack), maxStack)]
	f := entity.Fingerprint{Class: clean(RootClass(class, stack), maxClass)}
	if m.applyRule(&f, message) {
		return f
	}
	f.Title = Title(message)
	if cause := Cause(f.Class, message, stack); cause != message {
		f.Message, f.Title = f.Title, Title(cause)
	}
	f.Frames = m.framesOf(stack)
	return f
}

func (m *Fingerprinter) applyRule(f *entity.Fingerprint, message string) bool {
	if len(m.rules) == 0 {
		return false
	}
	message = message[:min(len(message), maxMessage)]
	for _, r := range m.rules {
		found := r.pattern.FindStringSubmatchIndex(message)
		if found == nil {
			continue
		}
		title := string(r.pattern.ExpandString(nil, r.title, message, found))
		f.Rule, f.Title = r.name, clean(title, maxTitle)
		if f.Title == "" {
			f.Title = clean(r.name, maxTitle)
		}
		return true
	}
	return false
}
