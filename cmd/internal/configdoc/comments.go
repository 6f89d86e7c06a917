package main

import (
	"regexp"
	"strings"
)

// comments are the comments of the reference file. The comment of a key is on the same line and may continue on the
// next lines in the same column. Further comments may be on whole lines above the key.
type comments struct {
	of       map[string]string // comment, by key or section
	more     map[string]string // comment on the lines above a key, by the key
	sections []string          // keys of the sections, in the order of the file
}

// keyLine matches a key, its value, and a comment. It requires that no value in the reference file contains #.
var keyLine = regexp.MustCompile(`^( *)([a-z0-9_]+):([^#]*)(?:# *(.*))?$`)

// readComments reads the reference file.
func readComments(text string) comments {
	c := comments{of: map[string]string{}, more: map[string]string{}}
	var path []string // the key of the current line
	var above []string
	last, column := "", -1 // the last key with a comment on its line, and the column in which this comment begins
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

// meaning returns the comments of a key; those of its section when the key has none; "" when the file does not contain
// the key.
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
