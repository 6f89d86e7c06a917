package fingerprint

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Config configures the grouping of failures.
type Config struct {
	// Rules are tried in order before a title is computed in any other way; the first rule that matches gives the title.
	Rules []Rule `mapstructure:"rules"`
	// Frames are prefixes of the application's own stack frames, such as com.acme. or src/; other frames are then
	// ignored. An empty list means all frames except those of known frameworks and runtimes.
	Frames []string `mapstructure:"frames"`
}

// Rule assigns every matching error message to the error group of the rule's title.
type Rule struct {
	Name    string `mapstructure:"name"`    // unique; a new name makes new error groups
	Pattern string `mapstructure:"pattern"` // RE2, searched for in the error message
	Title   string `mapstructure:"title"`   // title of the error group; may use groups of the pattern: $1, ${name}; "" for the rule's name
}

// DefaultConfig returns settings without rules, which ignore the frames of known frameworks.
func DefaultConfig() Config { return Config{} }

// Validate reports every problem at once.
func (c Config) Validate() error {
	var errs []error
	names := map[string]bool{}
	for i, r := range c.Rules {
		at := fmt.Sprintf("groups.rules[%d]", i)
		switch {
		case strings.TrimSpace(r.Name) == "":
			errs = append(errs, fmt.Errorf("%s.name is empty", at))
		case names[r.Name]:
			errs = append(errs, fmt.Errorf("%s.name %q is there twice", at, r.Name))
		}
		names[r.Name] = true
		switch _, err := regexp.Compile(r.Pattern); {
		case r.Pattern == "":
			errs = append(errs, fmt.Errorf("%s.pattern is empty", at))
		case err != nil:
			errs = append(errs, fmt.Errorf("%s.pattern: %w", at, err))
		}
	}
	for i, f := range c.Frames {
		if strings.TrimSpace(f) == "" {
			errs = append(errs, fmt.Errorf("groups.frames[%d] is empty", i))
		}
	}
	return errors.Join(errs...)
}
