package payload

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

func TestTerms(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, value string
		has, not    []string // each text names a term: by a path, or by a path and a scalar, as in $.id=42
	}{
		{
			"EveryValueByPathAndByValue", `{"id":42,"who":{"name":"Ann"},"ok":true,"no":null}`,
			[]string{"$", "$.id", "$.id=42", "$.who", `$.who.name="Ann"`, "$.ok=true", "$.no", "$.no=null"},
			[]string{`$.id="42"`, "$.name", "$.who=42"},
		},
		{
			"ElementsOfArrays", `{"items":[{"sku":"a"},{"sku":"b"}],"tags":[],"grid":[[1]]}`,
			[]string{"$.items", "$.items[*]", `$.items[*].sku="a"`, `$.items[*].sku="b"`, "$.tags", "$.grid[*][*]=1"},
			[]string{`$.items.sku="a"`, "$.tags[*]"},
		},
		{"NumbersInAnySpelling", `{"n":4.20e1,"big":9007199254740993}`, []string{"$.n=42", "$.big=9007199254740993"}, []string{"$.big=9007199254740992"}},
		{"MembersThatAreThereTwice", `{"a":1,"a":2}`, []string{"$.a=1", "$.a=2"}, nil},
		{"EscapedAndOddNames", `{"\u0061":1,"any name":2,"it's":3,"":4}`, []string{"$.a=1", "$['any name']=2", `$['it\'s']=3`, "$['']=4"}, nil},
		{"AScalarAlone", ` "x" `, []string{"$", `$="x"`}, nil},
		{"WhiteSpace", "{ \"a\" : [ 1 , { \"b\" : 2 } ] , \"c\" : { } }\n", []string{"$.a[*]=1", "$.a[*].b=2", "$.c"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := reading(c.value).Terms(1000)
			for _, want := range c.has {
				if !slices.Contains(got, term(want)) {
					t.Errorf("Terms(%s) lacks %s", c.value, want)
				}
			}
			for _, no := range c.not {
				if slices.Contains(got, term(no)) {
					t.Errorf("Terms(%s) has %s, want it not", c.value, no)
				}
			}
			if !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
				t.Errorf("Terms(%s) = %d, want them sorted and each once", c.value, got)
			}
		})
	}
}

func term(text string) int64 {
	path, scalar, _ := strings.Cut(text, "=")
	return entity.FieldTerm(path, scalar)
}

func TestTerms_OfWhatIsNotJSON(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"", " ", "text", "{", `{"a":1}{"b":2}`, "\x00\x00\x00\x00\x01{}", "\xff\xfe{\x00}\x00"} {
		if got := reading(value).Terms(10); got != nil {
			t.Errorf("Terms(%q) = %d, want nil", value, got)
		}
	}
}

func TestTerms_AreBounded(t *testing.T) {
	t.Parallel()
	wide := "[" + strings.TrimSuffix(strings.Repeat("1,", 100_000), ",") + "]"
	if got := reading(wide).Terms(50); len(got) != 3 {
		t.Errorf("got %d terms, want those of $, $[*] and $[*]=1", len(got))
	}
	var many strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&many, `"n%d":%d,`, i, i)
	}
	if got := reading("{" + many.String() + `"z":0}`).Terms(100); len(got) != 1+2*99 {
		t.Errorf("got %d terms, want %d", len(got), 1+2*99)
	}
	for _, depth := range []int{150, 5000} {
		deep := strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth)
		if got, want := len(reading(deep).Terms(10_000)), min(depth+2, maxDepth+1); got != want {
			t.Errorf("depth %d: got %d terms, want %d", depth, got, want)
		}
	}
	if got := reading(`{"` + strings.Repeat("x", 2000) + `":1,"a":2}`).Terms(10); len(got) != 3 {
		t.Errorf("got %d terms, want none of a name that no path can have", len(got))
	}
}

func FuzzTerms(f *testing.F) {
	for _, s := range []string{`{"a":[1,{"b":null}],"a":"x"}`, `[[[]]]`, `"\ud800"`, `{"\u0000":1e5}`, "{", `{"a":1,}`, "\xff", `["\""]`} {
		f.Add([]byte(s))
	}
	masks, err := NewMasks(MaskConfig{Payload: []string{"$.a", "$.b[*].c"}})
	check.NoError(f, err)
	f.Fuzz(func(t *testing.T, value []byte) {
		if got := reading(string(value)).Terms(20); len(got) > 40 {
			t.Errorf("Terms(%q, 20) has %d", value, len(got))
		}
		for _, m := range []*Masks{nil, masks} {
			got := m.Read(value, nil).Text(30)
			if len(got) > 30 || !utf8.ValidString(got) || strings.Contains(got, "\x00") {
				t.Errorf("Text(%q) = %q, want at most 30 bytes of UTF-8 without NUL", value, got)
			}
		}
	})
}
