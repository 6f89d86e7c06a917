package main

import (
	"regexp"
	"strings"
)

// comments are the comments of configs/config.yaml, the reference file. The comment of a key is on the same line and
// may continue on the next lines in the same column. Further comments may be on whole lines above the key.
type comments struct {
	of       map[string]string // comment on the line of a key or section, by its name
	more     map[string]string // comment on the lines above a key, by its name
	sections []string          // names of the sections, in the order of the file
}

// keyLine matches a key of configs/config.yaml, its value, and a comment. No value in this file may contain #.
var keyLine = regexp.MustCompile(`^( *)([a-z0-9_]+):([^#]*)(?:# *(.*))?$`)

// readComments returns the comments in the text of configs/config.yaml.
func readComments(text string) comments {
	c := comments{of: map[string]string{}, more: map[string]string{}}
	var path []string // the names of the sections around the current line, and its key
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

// meaning returns the comments of a key, or the comment on the line of its section if the key has none. It returns ""
// if the file does not contain the key.
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
