package rest

import (
	"regexp"
	"strings"
	"testing"
)

var heading = regexp.MustCompile(`(?m)^###? (.+)$`)

// The API document's list of contents leads to every part of it, in its order.
func TestDocument_Contents(t *testing.T) {
	t.Parallel()
	text := readDocument(t)
	contents, rest, _ := strings.Cut(text, "\n## ")
	at := 0
	for _, m := range heading.FindAllStringSubmatch("## "+rest, -1) {
		link := "[" + m[1] + "](#" + anchor(m[1]) + ")"
		found := strings.Index(contents[at:], link)
		if found < 0 {
			t.Fatalf("the contents have no %s, or not in its place", link)
		}
		at += found + len(link)
	}
	if n := strings.Count(contents, "](#"); n != len(heading.FindAllString("## "+rest, -1)) {
		t.Errorf("%d links, want one for each part", n)
	}
}

// anchor is what a heading is called in links to it.
func anchor(title string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c == ' ':
			return '-'
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-':
			return c
		}
		return -1
	}, strings.ToLower(title))
}
