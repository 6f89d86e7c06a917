package payload

import (
	"encoding/json"
	"math/big"
	"slices"
	"strings"
	"testing"
)

func TestScalar(t *testing.T) {
	t.Parallel()
	for _, same := range [][]string{
		{"42", "42", "42.0", "4.2e1", "420e-1", "0.42E+2", " 42 "},
		{"0", "0", "-0", "0.000", "0e99"},
		{"42e2", "4200", "4.2e3"},
		{"5e-1", "0.5", "0.50", "5E-1"},
		{"-5e-1", "-0.5"},
		{"9007199254740993", "9007199254740993", "9007199254740993.0"},
		{"9007199254740992", "9007199254740992"},
		{"1e400", "1e400", "10e399"},
		{"1e-400", "1e-400"},
		{"1e99999999999999999999", "1e99999999999999999999"},
		{`"abc"`, `"abc"`, `"\u0061bc"`},
		{`"<&>"`, `"<&>"`, `"\u003c&>"`},
		{`"a/b"`, `"a/b"`, `"a\/b"`},
		{`"42"`, `"42"`},
		{"true", "true"},
		{"false", "false"},
		{"null", "null"},
	} {
		for _, text := range same[1:] {
			if got, ok := Scalar([]byte(text)); !ok || got != same[0] {
				t.Errorf("Scalar(%s) = %s, %t, want %s", text, got, ok, same[0])
			}
		}
	}
	for _, text := range []string{"", " ", "{}", "[1]", "01", "abc", "1 2", `"a`, "NaN", "+1"} {
		if got, ok := Scalar([]byte(text)); ok {
			t.Errorf("Scalar(%s) = %s, want none", text, got)
		}
	}
}

func TestParseScalars(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"abc":     {`"abc"`},
		" abc ":   {`"abc"`},
		"42.0":    {`"42.0"`, "42"},
		`"42"`:    {`"42"`},
		"true":    {`"true"`, "true"},
		"null":    {`"null"`, "null"},
		"":        {`""`},
		`""`:      {`""`},
		"042":     {`"042"`},
		`say "x"`: {`"say \"x\""`},
		`"open`:   {`"\"open"`},
		"{}":      {`"{}"`},
	} {
		if got := ParseScalars(text); !slices.Equal(got, want) {
			t.Errorf("ParseScalars(%q) = %q, want %q", text, got, want)
		}
	}
}

func FuzzScalar(f *testing.F) {
	for _, s := range []string{"42.0", "-0e7", "1e400", `"\ud800"`, `"é"`, "null", "123456789012345678901234567890.10"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := Scalar([]byte(text))
		if !ok {
			return
		}
		if again, ok := Scalar([]byte(got)); !ok || again != got {
			t.Errorf("Scalar(%q) = %q, whose own form is %q, %t", text, got, again, ok)
		}
		var n json.Number
		if len(text) < 20 && json.Unmarshal([]byte(text), &n) == nil && n != "" && !strings.ContainsAny(text, `eE"`) {
			a, _ := new(big.Rat).SetString(n.String())
			b, _ := new(big.Rat).SetString(got)
			if a.Cmp(b) != 0 {
				t.Errorf("Scalar(%q) = %q, which is another number", text, got)
			}
		}
	})
}
