package fingerprint

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Config says how failures are grouped.
type Config struct {
	// Rules are tried in their order before anything else; the first that matches decides.
	Rules []Rule `mapstructure:"rules"`
	// Frames are prefixes of the application's own stack frames, such as com.acme. or src/: no others count then.
	// None: all frames of no known framework or runtime.
	Frames []string `mapstructure:"frames"`
}

// Rule puts every error message that matches into the group of its title.
type Rule struct {
	Name    string `mapstructure:"name"`    // unique; changing it makes new groups
	Pattern string `mapstructure:"pattern"` // RE2, searched for in the error message
	Title   string `mapstructure:"title"`   // may name what the pattern caught: $1, ${name}; empty: the rule's name
}

// DefaultConfig has no rules and takes the frames of no known framework.
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
