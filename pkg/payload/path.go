package payload

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxPath is the maximum length of a path's text in bytes. A longer path is rejected in requests, and not indexed.
const MaxPath = 1024

const maxDepth = 200

// Path names a place in JSON texts, at which a text may contain several values: `$` is the whole text, `.name` or
// `['any name']` a member of an object, and `[*]` every element of an array. The zero value is `$`.
type Path struct{ steps []step }

type step struct {
	name string
	each bool
}

// ParsePath parses a path. Its error is a sentence for users. Indexes, filters, slices, wildcards for names and
// recursive descent are not supported, because the search index does not store the order of elements.
func ParsePath(text string) (Path, error) {
	p, rest, err := ReadPath(text)
	if err == nil && rest != "" {
		err = fmt.Errorf("%q cannot follow the path %s: write names with such characters as ['name']", rest, p)
	}
	if err != nil {
		return Path{}, err
	}
	return p, nil
}

// ReadPath parses the path at the beginning of text and returns the rest of the text, as for `$.customer.id = 42`.
func ReadPath(text string) (p Path, rest string, err error) {
	rest, ok := strings.CutPrefix(text, "$")
	if !ok {
		return Path{}, text, errors.New("a path begins with $, as in $.customer.id")
	}
	for err == nil && rest != "" && (rest[0] == '.' || rest[0] == '[') {
		var s step
		if s, rest, err = readStep(rest); err == nil {
			p.steps = append(p.steps, s)
		}
		if len(p.steps) > maxDepth {
			err = fmt.Errorf("a path has at most %d steps", maxDepth)
		}
	}
	if err == nil && len(p.String()) > MaxPath {
		err = fmt.Errorf("a path is at most %d bytes long", MaxPath)
	}
	if err != nil {
		return Path{}, text, err
	}
	return p, rest, nil
}

func readStep(text string) (step, string, error) {
	if text[0] == '[' {
		return readBracket(text)
	}
	end := 1 + strings.IndexFunc(text[1:]+" ", func(r rune) bool { return !plain(r) })
	switch name := text[1:end]; {
	case name != "":
		return step{name: name}, text[end:], nil
	case strings.HasPrefix(text, ".."):
		return step{}, "", errors.New("recursive descent (..) is not offered: write the whole path")
	case strings.HasPrefix(text, ".*"):
		return step{}, "", errors.New("a wildcard for names (.*) is not offered: [*] matches the elements of an array")
	}
	return step{}, "", errors.New("a name must follow the dot, as in $.customer.id")
}

// plain reports whether r may be in a name that follows a dot and has no quotes.
func plain(r rune) bool {
	return r == '_' || r == '-' || r == '@' || r == ':' || r == '$' || r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r))
}

func readBracket(text string) (step, string, error) {
	if rest, ok := strings.CutPrefix(text, "[*]"); ok {
		return step{each: true}, rest, nil
	}
	if len(text) < 2 || text[1] != '\'' && text[1] != '"' {
		return step{}, "", errors.New("only [*] and ['name'] are offered in brackets: no indexes, slices or filters")
	}
	name, rest, ok := readQuoted(text[1:])
	if !ok {
		return step{}, "", errors.New("a name in brackets has no end: write ['name'], a quote in it as \\'")
	}
	if rest, ok = strings.CutPrefix(rest, "]"); !ok {
		return step{}, "", errors.New("a bracket holds one name: write ['name']")
	}
	return step{name: strings.ToValidUTF8(name, "\uFFFD")}, rest, nil
}

// readQuoted reads a name in single or double quotes. A backslash in it escapes a quote or a backslash.
func readQuoted(text string) (name, rest string, ok bool) {
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case text[0]:
			return b.String(), text[i+1:], true
		case '\\':
			if i++; i == len(text) || !strings.ContainsRune(`\'"`, rune(text[i])) {
				return "", "", false
			}
		}
		b.WriteByte(text[i])
	}
	return "", "", false
}

// String returns the canonical form of the path, by which searches, terms and masks compare paths. Names of ASCII
// letters, digits, _ and - follow a dot; all other names are in brackets.
func (p Path) String() string {
	text := []byte("$")
	for _, s := range p.steps {
		if s.each {
			text = append(text, "[*]"...)
		} else {
			text = appendName(text, s.name)
		}
	}
	return string(text)
}

func appendName(text []byte, name string) []byte {
	if ordinary(name) {
		return append(append(text, '.'), name...)
	}
	text = append(text, "['"...)
	for i := range len(name) {
		if name[i] == '\'' || name[i] == '\\' {
			text = append(text, '\\')
		}
		text = append(text, name[i])
	}
	return append(text, "']"...)
}

func ordinary(name string) bool {
	for i := range len(name) {
		if c := name[i]; c != '_' && c != '-' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') {
			return false
		}
	}
	return name != ""
}
