package entity

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

func TestPatternsMatch(t *testing.T) {
	t.Parallel()
	tests := []struct {
		pattern, topic string
		want           bool
	}{
		{"*.dlq.v1", "orders.dlq.v1", true},
		{"*.dlq.v1", "a.b-c_d.dlq.v1", true},
		{"*.dlq.v1", ".dlq.v1", false}, // a star stands for at least one character
		{"*.dlq.v1", "orders.dlq.v10", false},
		{"*.dlq.v1", "orders-dlq-v1", false}, // a dot matches only a dot
		{"*.dlq.v1", "orders/x.dlq.v1", false},
		{"*.dlq.v1", "orders.dlq.v1.dlq.v1", true},
		{"orders", "orders", true},
		{"orders", "orders2", false},
		{"a*b*c", "aXbYc", true},
		{"a*b*c", "abbc", false},
		{"a*b*c", "abbbc", true},
		{"*a*", "bab", true},
		{"*a*", "ba", false},
		{"**", "a", false},
		{"**", "ab", true},
		{"*", "", false},
		{"*.dlq.*", "x.dlq.v2", true},
		{`^.*\.dlq(\.v\d+)?$`, "orders.dlq", true},
		{`^.*\.dlq(\.v\d+)?$`, "orders.dlq.v2", true},
		{`^.*\.dlq(\.v\d+)?$`, "orders.dlq.v2x", false},
		{`^a|b$`, "ab", false}, // the expression must match the whole name
		{`^a|b$`, "a", true},
		{`^a|b$`, "b", true},
		{`^(?i)orders\.dlq$`, "Orders.DLQ", true},
	}
	for _, tt := range tests {
		p, err := ParseTopicPatterns("kafka.dlq_topic_pattern", tt.pattern)
		if err != nil {
			t.Errorf("ParseTopicPatterns(%q): %v", tt.pattern, err)
			continue
		}
		if got := p.Match(tt.topic); got != tt.want {
			t.Errorf("%q.Match(%q) = %v, want %v", tt.pattern, tt.topic, got, tt.want)
		}
	}
}

func TestPatternsMatchAnyOfAList(t *testing.T) {
	t.Parallel()
	p, err := ParseTopicPatterns("kafka.dlq_topic_pattern", "*.dlq.v1", `^.*-dlt$`)
	check.NoError(t, err)
	for topic, want := range map[string]bool{"orders.dlq.v1": true, "orders-dlt": true, "orders": false} {
		if got := p.Match(topic); got != want {
			t.Errorf("Match(%q) = %v, want %v", topic, got, want)
		}
	}
	if got, want := p.String(), "*.dlq.v1, ^.*-dlt$"; got != want {
		t.Errorf("String() = %q, want %q", got, want)
	}
	if (TopicPatterns{}).Match("orders") {
		t.Error("the zero Patterns matches, want nothing")
	}
}

func TestParsePatternsSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		patterns []string
		says     []string
	}{
		{"None", nil, []string{"at least one"}},
		{"Empty", []string{""}, []string{"empty"}},
		{"HalfAnchored", []string{`^.*\.dlq`}, []string{`"^.*\\.dlq"`, "end with $"}},
		{"NotAnchored", []string{`.*\.dlq$`}, []string{"begin with ^"}},
		{"OnlyAnAnchor", []string{"^"}, []string{"end with $"}},
		{"EscapedDollar", []string{`^orders\$`}, []string{"end with $"}},
		{"GroupsThatOpenTheAnchors", []string{`^a)|(?:b$`}, []string{"unexpected )"}},
		{"BadExpression", []string{`^(.*$`}, []string{"missing closing"}},
		{"ExpressionAsGlob", []string{`.+\.dlq`}, []string{`'+'`, "glob"}},
		{"NotASCII", []string{"bestellüng"}, []string{"'ü'"}},
		{"All", []string{"a b", "*.dlq", "^c"}, []string{`"a b"`, `"^c"`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, err := ParseTopicPatterns("kafka.dlq_topic_pattern", tt.patterns...)
			if !errors.Is(err, ErrInvalid) {
				t.Fatalf("ParseTopicPatterns(%q) = %v, want an error of kind ErrInvalid", tt.patterns, err)
			}
			for _, part := range append(tt.says, "kafka.dlq_topic_pattern") {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("ParseTopicPatterns(%q): %q does not say %q", tt.patterns, err, part)
				}
			}
			if p.Match("x.dlq") {
				t.Error("patterns of a failed parse match")
			}
		})
	}
}

// The hand-written matcher of globs must agree with the regular expression that defines globs.
func FuzzGlobAgreesWithExpression(f *testing.F) {
	f.Add("*.dlq.v1", "orders.dlq.v1")
	f.Add("a*b**c", "aXbYYc")
	f.Add("*a*a*", "aaaaa")
	f.Fuzz(func(t *testing.T, glob, name string) {
		p, err := ParseTopicPattern(glob)
		if err != nil || p.re != nil || len(glob) > 50 {
			return
		}
		re := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(glob), `\*`, "[A-Za-z0-9._-]+") + "$")
		if got, want := p.Match(name), re.MatchString(name); got != want {
			t.Errorf("%q.match(%q) = %v, want %v", glob, name, got, want)
		}
	})
}

func TestValidTopic(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		want bool
	}{
		{"orders", true},
		{"A.b_c-9", true},
		{"...", true},
		{"__consumer_offsets", true},
		{strings.Repeat("a", 249), true},
		{strings.Repeat("a", 250), false},
		{"", false},
		{".", false},
		{"..", false},
		{"a b", false},
		{"a/b", false},
		{"a\x00", false},
		{"a\n", false},
		{"ü", false},
		{"\xff", false},
	}
	for _, tt := range tests {
		if got := ValidTopic(tt.name); got != tt.want {
			t.Errorf("ValidTopic(%.20q) = %v, want %v", tt.name, got, tt.want)
		}
	}
}

// Patterns joined by And match a topic only when all lists match it, whether they are globs or regular expressions.
func TestTopicPatterns_And(t *testing.T) {
	t.Parallel()
	parse := func(texts ...string) TopicPatterns {
		p, err := ParseTopicPatterns("topics", texts...)
		check.NoError(t, err)
		return p
	}
	both := parse("orders", "orders-*").And(parse("orders-eu", "payments")).And(parse("^orders.*$"))
	for topic, want := range map[string]bool{"orders-eu": true, "orders": false, "orders-us": false, "payments": false, "": false} {
		m := Message{Source: Source{Topic: topic}}
		if got := both.Match(topic); got != want || both.Sees(&m) != want {
			t.Errorf("%q: got %t and %t, want %t", topic, got, both.Sees(&m), want)
		}
	}
	if got, want := both.String(), "orders, orders-* & orders-eu, payments & ^orders.*$"; got != want || len(both.Parts()) != 3 {
		t.Errorf("got %s of %d parts, want %s of 3", got, len(both.Parts()), want)
	}
	if both.Equal(parse("orders", "orders-*")) || !both.Equal(both) {
		t.Error("Equal does not look at what And added")
	}
	if nothing := parse("*").And(TopicPatterns{}); nothing.Match("orders") {
		t.Error("what one half never matches is matched")
	}
}
