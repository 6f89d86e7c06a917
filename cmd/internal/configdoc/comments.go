package main

import (
	"regexp"
	"strings"
)

// comments are what the reference file says of its keys: behind a key, on the
// lines below it in the same column, or on whole lines above it.
type comments struct {
	of       map[string]string // by key, sections too
	more     map[string]string // by key: what stands above it
	sections []string          // in the order of the file
}

// A key, its value, and a comment. The reference file has no # in values.
var keyLine = regexp.MustCompile(`^( *)([a-z_]+):([^#]*)(?:# *(.*))?$`)

// readComments reads the lines of the reference file.
func readComments(text string) comments {
	c := comments{of: map[string]string{}, more: map[string]string{}}
	var path []string // the keys that the current line stands in
	var above []string
	last, column := "", -1 // the key that a comment stood behind, and where
	for _, line := range strings.Split(text, "\n") {
		mark := strings.IndexByte(line, '#')
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			words := strings.TrimSpace(strings.TrimLeft(line[mark:], "#"))
			if last != "" && mark == column {
				c.of[last] += " " + words
			} else {
				above, last = append(above, words), ""
			}
			continue
		}
		last = ""
		found := keyLine.FindStringSubmatch(line)
		if found == nil {
			above = nil
			continue
		}
		depth := len(found[1]) / 2
		path = append(path[:min(depth, len(path))], found[2])
		key := strings.Join(path, ".")
		if depth == 0 {
			c.sections = append(c.sections, key)
		}
		c.of[key] = strings.TrimSpace(found[4])
		if len(above) > 0 {
			c.more[key] = strings.Join(above, " ")
		}
		above = nil
		if mark >= 0 {
			last, column = key, mark
		}
	}
	return c
}

// meaning is all that is said of a key, or of its section when nothing is said of
// the key itself; "" for a key that is not in the file.
func (c comments) meaning(key string) string {
	text, there := c.of[key]
	if !there {
		return ""
	}
	more := strings.TrimSuffix(c.more[key], ".")
	switch {
	case text != "" && more != "":
		return text + ". " + more
	case text+more != "":
		return text + more
	default:
		return c.of[key[:max(strings.LastIndexByte(key, '.'), 0)]]
	}
}
