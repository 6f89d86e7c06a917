package stack

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// settings holds the lines of a server's configuration file.
type settings map[string]string

// with returns a copy of the settings, in which the values of the parameter others replace values of the same name.
func (s settings) with(others ...map[string]string) settings {
	merged := maps.Clone(s)
	for _, other := range others {
		maps.Copy(merged, other)
	}
	return merged
}

// render writes one setting per line, sorted, with each value passed through quote.
func (s settings) render(quote func(string) string) string {
	var text strings.Builder
	for _, key := range sortedKeys(s) {
		fmt.Fprintf(&text, "%s=%s\n", key, quote(s[key]))
	}
	return text.String()
}

func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
