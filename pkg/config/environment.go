package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// environment is what the variables say about the keys.
type environment struct {
	values   map[string]any // by key, each with its field's type
	warnings []string
	problems []error
}

// readEnvironment looks variables up by key and not keys by variable: "_"
// stands for "." and for itself, so the way back is ambiguous.
func readEnvironment(keys keyTable, prefix string, entries []string) environment {
	env := environment{values: map[string]any{}}
	given := variables(prefix, entries)
	for _, key := range slices.Sorted(maps.Keys(keys.settings)) {
		name := prefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
		text := given[name]
		delete(given, name)
		if text == "" {
			continue
		}
		value, err := convertText(key, keys.settings[key].typ, text)
		if err != nil {
			env.problems = append(env.problems, fmt.Errorf("%s: %w%s", name, err, serviceLinkHint(text)))
			continue
		}
		env.values[key] = value.Interface()
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !strings.HasPrefix(name, prefix+"STACK_") {
			env.warnings = append(env.warnings, fmt.Sprintf("environment variable %s is not a setting: ignored", name))
		}
	}
	return env
}

func variables(prefix string, entries []string) map[string]string {
	given := map[string]string{}
	for _, entry := range entries {
		if name, value, ok := strings.Cut(entry, "="); ok && strings.HasPrefix(name, prefix) {
			given[name] = value
		}
	}
	return given
}

// serviceLinkHint explains the one surprise that operators cannot have caused:
// Kubernetes sets DLQ_SERVER_PORT=tcp://... in every pod when a Service is
// named dlq-server.
func serviceLinkHint(text string) string {
	if strings.HasPrefix(text, "tcp://") {
		return " (this looks like a Kubernetes service link: set enableServiceLinks: false)"
	}
	return ""
}
