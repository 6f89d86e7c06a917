package payload

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

func TestValues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, value, paths, want string }{
		{"Member", `{"a":{"b":"x"},"b":"y"}`, "$.a.b", `0 string x`},
		{"EveryKind", `{"a":["x",4.20,true,null]}`, "$.a[*]", "0 string x\n0 number 4.20\n0 boolean true\n0 null null"},
		{"ElementsOfObjects", `{"items":[{"sku":"a"},{"sku":"b"},{}]}`, "$.items[*].sku", "0 string a\n0 string b"},
		{"NoElementsWithoutStar", `{"a":["x"]}`, "$.a", ""},
		{"NoMembersOfElementsWithoutStar", `{"a":[{"b":1}]}`, "$.a.b", ""},
		{"ObjectsAreNoValues", `{"a":{}}`, "$.a", ""},
		{"RepeatedMembers", `{"a":1,"a":2}`, "$.a", "0 number 1\n0 number 2"},
		{"SeveralPaths", `{"a":1,"b":{"c":2}}`, "$.b.c $.a $.b.c", "1 number 1\n0 number 2\n2 number 2"},
		{"EscapedName", `{"\u0061":"\u0062"}`, "$.a", "0 string b"},
		{"WholeText", ` 7 `, "$", "0 number 7"},
		{"NoJSON", `{"a":1`, "$.a", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			reading(c.value).Values(parsed(t, strings.Fields(c.paths)...), 100, func(path int, v Value) {
				got = append(got, fmt.Sprint(path, " ", v.Kind, " ", v.Text))
			})
			check.Equal(t, strings.Join(got, "\n"), c.want, "values")
		})
	}
}

func parsed(t testing.TB, texts ...string) []Path {
	t.Helper()
	return check.Each(texts, func(text string) Path { return check.Must(ParsePath(text))(t) })
}

// TestValuesHaveTerms: a search by the canonical form of a value that Values finds, finds the record. Values finds
// every value at a path for which Terms returns a term.
func TestValuesHaveTerms(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "any name"}
	paths := parsed(t, "$", "$.a", "$.a.b", "$.a[*]", "$.a[*].b", "$[*]", "$['any name'].a")
	rapid.Check(t, func(r *rapid.T) {
		text := []byte(randomJSON(r, names, 4))
		limit := rapid.IntRange(1, 12).Draw(r, "limit")
		var want, got []int64
		for _, p := range paths {
			for _, scalar := range []string{`"x"`, `""`, `"4"`, "4", "4e1", "-5e-1", "true", "null"} {
				if term := entity.FieldTerm(p.String(), scalar); slices.Contains(reading(string(text)).Terms(limit), term) {
					want = append(want, term)
				}
			}
		}
		reading(string(text)).Values(paths, limit, func(path int, v Value) {
			got = append(got, entity.FieldTerm(paths[path].String(), v.Canonical()))
		})
		for _, list := range []*[]int64{&want, &got} {
			slices.Sort(*list)
			*list = slices.Compact(*list)
		}
		if !slices.Equal(got, want) {
			r.Errorf("the values of %s have the terms %d, want %d", text, got, want)
		}
	})
}

func randomJSON(r *rapid.T, names []string, depth int) string {
	kind := rapid.IntRange(0, 8).Draw(r, "kind")
	if depth == 0 {
		kind = min(kind, 5)
	}
	items := func(item func() string) string {
		var all []string
		for range rapid.IntRange(0, 3).Draw(r, "items") {
			all = append(all, item())
		}
		return strings.Join(all, ",")
	}
	switch kind {
	case 6:
		return "[" + items(func() string { return randomJSON(r, names, depth-1) }) + "]"
	case 7, 8:
		return "{" + items(func() string {
			return `"` + rapid.SampledFrom(names).Draw(r, "name") + `": ` + randomJSON(r, names, depth-1)
		}) + "}"
	}
	return rapid.SampledFrom([]string{`"\u0078"`, `""`, `"4"`, "4.0", "40", "-0.5", "true", "null"}).Draw(r, "scalar")
}

func TestIdentityIsEqualForEqualValues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"42", "4.2e1", true},
		{"42", "42.0", true},
		{"0", "-0.0", true},
		{"42", "420", false},
		{`"a"`, `"\u0061"`, true},
		{`"4.0"`, `"4"`, false},
		{"true", "false", false},
	} {
		a, b := valueOf([]byte(c.a)), valueOf([]byte(c.b))
		check.Equal(t, a.Identity() == b.Identity(), c.same, "%s and %s", c.a, c.b)
		check.Equal(t, a.Canonical() == b.Canonical(), c.same, "canonical forms of %s and %s", c.a, c.b)
	}
}
