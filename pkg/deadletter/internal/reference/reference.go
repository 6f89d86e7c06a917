// Package reference reads the references $1 and ${1} in the original topic of a rule. They stand for what the groups of
// the rule's pattern have matched. Package regexp cannot expand these references: it would read $1_x as the group with
// the name "1_x", and replace it by the empty string.
package reference

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

var reference = regexp.MustCompile(`\$(?:(\d+)|\{(\d+)\})`)

// Check returns an error if the text has a reference to a group that a pattern with this number of groups does not have.
func Check(text string, groups int) error {
	for _, ref := range reference.FindAllStringSubmatch(text, -1) {
		if n, err := strconv.Atoi(ref[1] + ref[2]); err != nil || n > groups {
			return fmt.Errorf("%q: %s names a group that the pattern does not have", text, ref[0])
		}
	}
	return nil
}

// Replace replaces all references in the text by the same text.
func Replace(text, by string) string { return reference.ReplaceAllString(text, by) }

// Expand replaces the references in the text by what the groups of the pattern matched.
func Expand(text string, groups []string) string {
	return reference.ReplaceAllStringFunc(text, func(ref string) string {
		n, err := strconv.Atoi(strings.Trim(ref, "${}"))
		if err != nil || n >= len(groups) {
			return ""
		}
		return groups[n]
	})
}
