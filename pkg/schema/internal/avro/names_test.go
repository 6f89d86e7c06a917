package avro

import (
	"slices"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// follow returns what the members on a path are called, with "|" between the names of one member. A branch is in
// brackets, "*" is an element of an array, and the path ends in "." when names are known in the last value.
func follow(names entity.Names, path ...string) string {
	var steps []string
	for _, step := range path {
		if names == nil {
			return strings.Join(append(steps, "nil"), " ")
		}
		if step == "*" {
			names = names.Element()
			steps = append(steps, step)
			continue
		}
		all, value, branch := names.Member(step)
		called := strings.Join(all, "|")
		if branch {
			called = "[" + called + "]"
		}
		steps, names = append(steps, called), value
	}
	if names != nil {
		steps = append(steps, ".")
	}
	return strings.Join(steps, " ")
}

func TestNamesOfMembers(t *testing.T) {
	t.Parallel()
	const (
		card = `{"type":"record","name":"pay.Card","fields":[{"name":"number","aliases":["pan","cardNo"],"type":"string"}]}`
		cash = `{"type":"record","name":"pay.Cash","fields":[{"name":"number","aliases":["note"],"type":{"type":"map","values":"int"}}]}`
		list = `{"type":"record","name":"L","fields":[{"name":"n","aliases":["m"],"type":"int"},{"name":"next","aliases":["rest"],"type":["null","L"]}]}`
		// with a field that is called like the other branch
		clash = `[{"type":"record","name":"A","fields":[{"name":"B","aliases":["b"],"type":{"type":"record","name":"In","fields":[{"name":"x","aliases":["y"],"type":"int"}]}}]},
			{"type":"record","name":"B","fields":[{"name":"x","aliases":["z"],"type":"int"}]}]`
	)
	in := func(union string) string {
		return `{"type":"record","name":"o.Order","namespace":"o","fields":[{"name":"by","aliases":["with"],"type":` + union + `}]}`
	}
	tests := []struct {
		name, schema, path, want string
	}{
		{"Scalar", `"string"`, "a", "nil"},
		{"Alias", card, "number", "number|pan|cardNo"},
		{"UnknownMember", card, "other", "other"},
		{"AliasIsNoNameInTheJSON", card, "pan", "pan"},
		{"Nested", in(card), "by number", "by|with number|pan|cardNo"},
		{"Array", in(`{"type":"array","items":` + card + `}`), "by * number", "by|with * number|pan|cardNo"},
		{"Map", in(`{"type":"map","values":` + card + `}`), "by any number", "by|with [any] number|pan|cardNo"},
		{"ArrayHasNoMembers", `{"type":"array","items":"int"}`, "x", "x"},
		{"ElementOfScalars", `{"type":"array","items":"int"}`, "*", "*"},
		{"ElementOfARecord", card, "*", "*"},
		{"OptionalRecord", in(`["null",` + card + `]`), "by number", "by|with number|pan|cardNo"},
		{"OptionalRecordThatIsNamed", in(`["null",` + card + `]`), "by pay.Card number", "by|with [] number|pan|cardNo"},
		{"OptionalMap", in(`["null",{"type":"map","values":` + card + `}]`), "by any number", "by|with [any] number|pan|cardNo"},
		{"OptionalMapWithAKeyLikeTheBranch", in(`["null",{"type":"map","values":` + card + `}]`), "by map number", "by|with [map] number|pan|cardNo"},
		{"OptionalArray", in(`["null",{"type":"array","items":` + card + `}]`), "by * number", "by|with * number|pan|cardNo"},
		{"ExceptionalNumber", in(`["null","double","string"]`), "by double", "by|with []"},
		{"OtherMemberOfScalars", in(`["null","double","string"]`), "by x", "by|with x"},
		{"NamedBranch", in(`[` + card + `,` + cash + `]`), "by pay.Card number", "by|with [] number|pan|cardNo"},
		{"OtherNamedBranch", in(`[` + card + `,` + cash + `]`), "by pay.Cash number k", "by|with [] number|note [k]"},
		{"BranchThatIsNotNamed", in(`[` + card + `,` + cash + `]`), "by number k", "by|with number|pan|cardNo|note [k]"},
		{"NamedArray", in(`["string","bytes",{"type":"array","items":` + card + `}]`), "by array * number", "by|with [] * number|pan|cardNo"},
		{"NamedMap", in(`["string","bytes",{"type":"map","values":` + card + `}]`), "by map any number", "by|with [map] [any] number|pan|cardNo"},
		{"FieldLikeABranch", clash, "B x", "[B|b] x|z|y"},
		{"FieldInItsBranch", clash, "A B x", "[] B|b x|y"},
		{"Recursion", list, "next next L next n", "next|rest next|rest [] next|rest n|m"},
		{"RecursionEndsOpen", list, "next next", "next|rest next|rest ."},
		{"Namespace", `{"type":"record","name":"a.O","fields":[{"name":"x","type":["null","string","bytes",{"type":"record","name":"I","fields":[{"name":"n","aliases":["m"],"type":"int"}]}]}]}`, "x a.I n", "x [] n|m"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			check.Equal(t, follow(parse(t, tt.schema).Names(), strings.Fields(tt.path)...), tt.want, "names")
		})
	}
}

// Masks ask for the names of each member of each message that is shown.
func TestNamesNeedNoMemory(t *testing.T) {
	names := parse(t, `{"type":"record","name":"R","fields":[{"name":"n","aliases":["m"],"type":["null","R"]},{"name":"e","type":["null","string","double",{"type":"array","items":"R"}]}]}`).Names()
	allocs := testing.AllocsPerRun(100, func() {
		_, inner, _ := names.Member("n")
		_, inner, _ = inner.Member("e")
		_, _, _ = inner.Element().Member("n")
		_, _, _ = inner.Member("double")
	})
	check.Equal(t, allocs, 0, "allocations")
}

// A union may have many records as branches, all of which have the same fields.
func TestNamesOfAWideUnionAreBounded(t *testing.T) {
	t.Parallel()
	var branches []string
	for i := range 5000 {
		branches = append(branches, `{"type":"record","name":"R`+strings.Repeat("x", i%70)+string(rune('A'+i/70%26))+strings.Repeat("y", i/1820)+`","fields":[{"name":"f","aliases":["g`+string(rune('a'+i%26))+`"],"type":"int"}]}`)
	}
	all, _, branch := parse(t, `[`+strings.Join(branches, ",")+`]`).Names().Member("f")
	check.True(t, !branch && len(all) <= 27 && slices.Contains(all, "f"), "got %v, %v", all, branch)
}
