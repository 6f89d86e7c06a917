package payload

import (
	"strings"
	"testing"
)

func TestParsePath(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"$":                                   "$",
		"$.customer.id":                       "$.customer.id",
		"$['customer']['id']":                 "$.customer.id",
		`$["customer"].id`:                    "$.customer.id",
		"$.items[*].sku":                      "$.items[*].sku",
		"$[*]":                                "$[*]",
		"$.user-id.x_1":                       "$.user-id.x_1",
		"$.2fa":                               "$.2fa",
		"$['any name'][*]":                    "$['any name'][*]",
		"$['']":                               "$['']",
		`$['it\'s']`:                          `$['it\'s']`,
		`$["a\"b"]`:                           `$['a"b']`,
		`$['back\\slash']`:                    `$['back\\slash']`,
		"$.straße":                            "$['straße']",
		"$.@type":                             "$['@type']",
		"$['a]b'].c":                          "$['a]b'].c",
		"$" + strings.Repeat(".a", 200):       "$" + strings.Repeat(".a", 200),
		"$['" + strings.Repeat("x", 9) + "']": "$." + strings.Repeat("x", 9),
	} {
		p, err := ParsePath(text)
		if err != nil || p.String() != want {
			t.Errorf("ParsePath(%q) = %q, %v, want %q", text, p, err, want)
		}
	}
}

func TestParsePath_RefusesWithASentence(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                               "begins with $",
		"customer.id":                    "begins with $",
		"$customer":                      "cannot follow",
		"$.":                             "a name must follow",
		"$..id":                          "recursive descent",
		"$.*":                            "wildcard for names",
		"$[0]":                           "no indexes",
		"$[1:2]":                         "no indexes, slices",
		"$[?(@.a)]":                      "filters",
		"$[":                             "only [*]",
		"$['a":                           "no end",
		`$['a\n']`:                       "no end",
		"$['a','b']":                     "holds one name",
		"$['a'":                          "holds one name",
		"$.a b":                          "cannot follow",
		"$.a=1":                          "cannot follow",
		"$" + strings.Repeat(".a", 201):  "at most 200 steps",
		"$." + strings.Repeat("a", 2000): "1024 bytes",
	} {
		if _, err := ParsePath(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParsePath(%.40q): got %v, want it to say %q", text, err, want)
		}
	}
}

func TestReadPath_LeavesWhatFollows(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]string{
		"$.a.b=4":          {"$.a.b", "=4"},
		"$.a[*].b = \"x\"": {"$.a[*].b", " = \"x\""},
		"$['a=b']=c=d":     {"$['a=b']", "=c=d"},
		"$":                {"$", ""},
	} {
		p, rest, err := ReadPath(text)
		if got := [2]string{p.String(), rest}; err != nil || got != want {
			t.Errorf("ReadPath(%q) = %q, %v, want %q", text, got, err, want)
		}
	}
}

func FuzzPath(f *testing.F) {
	for _, s := range []string{"$", "$.a.b[*]", `$['it\'s'].ö`, "$..a", "$[0]", "$['\xff']", "$.a\xff", "$['a\x00b']"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePath(text)
		if err != nil {
			return
		}
		again, err := ParsePath(p.String())
		if err != nil || again.String() != p.String() {
			t.Errorf("ParsePath(%q) = %q, which reads as %q, %v", text, p, again, err)
		}
	})
}
