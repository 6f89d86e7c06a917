package payload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

func TestPatch_Apply(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, value, patch, want string }{
		{"Replace", `{"a":1,"b":2}`, `[{"op":"replace","path":"/a","value":"x"}]`, `{"a":"x","b":2}`},
		{"AddMemberGoesLast", `{"b":1}`, `[{"op":"add","path":"/a","value":[]}]`, `{"b":1,"a":[]}`},
		{"AddElement", `{"a":[1,3]}`, `[{"op":"add","path":"/a/1","value":2},{"op":"add","path":"/a/-","value":4}]`, `{"a":[1,2,3,4]}`},
		{"AddNull", `{}`, `[{"op":"add","path":"/a","value":null}]`, `{"a":null}`},
		{"Remove", `{"a":1,"b":[1,2]}`, `[{"op":"remove","path":"/a"},{"op":"remove","path":"/b/0"}]`, `{"b":[2]}`},
		{"Move", `{"a":{"b":1},"c":{}}`, `[{"op":"move","from":"/a/b","path":"/c/d"}]`, `{"a":{},"c":{"d":1}}`},
		{"Copy", `{"a":[1]}`, `[{"op":"copy","from":"/a","path":"/b"}]`, `{"a":[1],"b":[1]}`},
		{"Test", `{"a":{"x":1,"y":[2]}}`, `[{"op":"test","path":"/a","value":{"y":[2],"x":1}},{"op":"remove","path":"/a/x"}]`, `{"a":{"y":[2]}}`},
		{"ReplaceTheWhole", `{"a":1}`, `[{"op":"replace","path":"","value":{"b":2}}]`, `{"b":2}`},
		{"AddTheWhole", `{"a":1}`, `[{"op":"add","path":"","value":[1]}]`, `[1]`},
		{"EscapedNames", `{"a/b":1,"c~d":2,"~1":3}`, `[{"op":"replace","path":"/a~1b","value":0},{"op":"replace","path":"/c~0d","value":0},{"op":"replace","path":"/~01","value":0}]`, `{"a/b":0,"c~d":0,"~1":0}`},
		{"ArrayAtTheRoot", "\n [1,2] ", `[{"op":"remove","path":"/0"}]`, `[2]`},
		{
			"NumbersAndTextsStay", `{"big":9007199254740993,"huge":1e400,"f":1.10,"s":"<a&b>\u00e9\u2028","deep":{"n":12345678901234567890,"x":0},"l":[1e400,{"m":0.10}]}`,
			`[{"op":"replace","path":"/deep/x","value":1e400},{"op":"add","path":"/l/-","value":9007199254740993},{"op":"copy","from":"/big","path":"/big2"},{"op":"move","from":"/huge","path":"/h"}]`,
			`{"big":9007199254740993,"f":1.10,"s":"<a&b>\u00e9\u2028","deep":{"n":12345678901234567890,"x":1e400},"l":[1e400,{"m":0.10},9007199254740993],"big2":9007199254740993,"h":1e400}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, err := CompilePatch([]byte(c.patch))
			check.NoError(t, err)
			before := strings.Clone(c.value)
			value := []byte(c.value)
			got, err := p.Apply(value)
			if err != nil || string(got) != c.want {
				t.Errorf("got %s, %v, want %s", got, err, c.want)
			}
			check.True(t, string(value) == before, "the value became %s", value)
			if again, err := p.Apply(value); err != nil || !bytes.Equal(again, got) {
				t.Errorf("a second time: got %s, %v, want %s", again, err, got)
			}
		})
	}
}

func TestPatch_SaysWhichOperationDoesNotFit(t *testing.T) {
	t.Parallel()
	const remove = `{"op":"remove","path":"/gone"}`
	for _, c := range []struct{ name, value, patch, field, reason string }{
		{"Missing", `{"a":1}`, `[{"op":"add","path":"/b","value":1},` + remove + `,{"op":"add","path":"/c","value":1}]`, "patch[1]", "remove /gone does not fit the payload: there is nothing"},
		{"TestFails", `{"a":"secret"}`, `[{"op":"test","path":"/a","value":1}]`, "patch[0]", "something else"},
		{"NoSuchIndex", `{"a":[1]}`, `[{"op":"replace","path":"/a/5","value":1}]`, "patch[0]", "does not fit"},
		{"NegativeIndex", `{"a":[1]}`, `[{"op":"remove","path":"/a/-1"}]`, "patch[0]", "does not fit"},
		{"NameInArray", `{"a":[1]}`, `[{"op":"add","path":"/a/x","value":1}]`, "patch[0]", "does not fit"},
		{"BelowAScalar", `{"a":1}`, `[{"op":"add","path":"/a/b","value":1}]`, "patch[0]", "does not fit"},
		{"BelowANull", `{}`, `[{"op":"add","path":"/a","value":null},{"op":"add","path":"/a/b","value":1}]`, "patch[1]", "does not fit"},
		{"IntoItself", `{"a":{"b":{}}}`, `[{"op":"move","from":"/a","path":"/a/b/c"}]`, "patch[0]", "does not fit"},
		{"NotJSON", `a=1`, `[` + remove + `]`, "patch", "not a JSON"},
		{"Tombstone", ``, `[` + remove + `]`, "patch", "not a JSON"},
		{"Scalar", `42`, `[` + remove + `]`, "patch", "not a JSON object or array"},
		{"MemberTwice", `{"x":[{"b":1,"\u0062":2}]}`, `[` + remove + `]`, "patch", "two members"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, err := CompilePatch([]byte(c.patch))
			check.NoError(t, err)
			got, err := p.Apply([]byte(c.value))
			var field *entity.FieldError
			if !errors.As(err, &field) || field.Field != c.field || !strings.Contains(field.Reason, c.reason) || got != nil {
				t.Fatalf("got %s, %v, want %s: %s", got, err, c.field, c.reason)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("got %v, want nothing of the payload in it", err)
			}
		})
	}
}

func TestCompilePatch_NamesTheOperation(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, patch, field, reason string }{
		{"NotAList", `{}`, "patch", "array"},
		{"Null", `null`, "patch", "array"},
		{"Broken", `[`, "patch", "array"},
		{"Nothing", `[]`, "patch", "1 to 200"},
		{"TooMany", "[" + strings.Repeat(`{"op":"remove","path":"/a"},`, 200) + `{"op":"remove","path":"/a"}]`, "patch", "not 201"},
		{"NoObject", `[1]`, "patch[0]", "object"},
		{"NullOperation", `[null]`, "patch[0]", "object"},
		{"UnknownOp", `[{"op":"test","path":"/a","value":1},{"op":"merge","path":"/a"}]`, "patch[1]", `not "merge"`},
		{"NoOp", `[{"path":"/a"}]`, "patch[0]", "op must be"},
		{"CaseMatters", `[{"OP":"remove","path":"/a"}]`, "patch[0]", "op must be"},
		{"NoPath", `[{"op":"remove"}]`, "patch[0]", "path must be a JSON Pointer"},
		{"NoPointer", `[{"op":"remove","path":"$.a"}]`, "patch[0]", "path must be a JSON Pointer"},
		{"BadEscape", `[{"op":"remove","path":"/a~2"}]`, "patch[0]", "~0"},
		{"EmptyPart", `[{"op":"remove","path":"/a//b"}]`, "patch[0]", "empty part"},
		{"TooDeep", `[{"op":"remove","path":"` + strings.Repeat("/a", 201) + `"}]`, "patch[0]", "more than 200"},
		{"NoValue", `[{"op":"add","path":"/a"}]`, "patch[0]", "add needs a value"},
		{"NoFrom", `[{"op":"copy","path":"/a"}]`, "patch[0]", "from must be"},
		{"RemoveTheWhole", `[{"op":"remove","path":""}]`, "patch[0]", "cannot be removed"},
		{"CopyTheWhole", `[{"op":"copy","from":"","path":"/a"}]`, "patch[0]", "cannot be moved or copied"},
		{"MoveOntoTheWhole", `[{"op":"move","from":"/a","path":""}]`, "patch[0]", "cannot be moved or copied"},
		{"AScalarForTheWhole", `[{"op":"replace","path":"","value":1}]`, "patch[0]", "object or an array"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := CompilePatch([]byte(c.patch))
			var field *entity.FieldError
			if !errors.As(err, &field) || field.Field != c.field || !strings.Contains(field.Reason, c.reason) {
				t.Errorf("got %v, want %s: %s", err, c.field, c.reason)
			}
		})
	}
}

func TestPatch_GrowthIsBounded(t *testing.T) {
	t.Parallel()
	var ops []string
	for i := range 30 { // each operation copies the member a into itself, which doubles its size
		ops = append(ops, fmt.Sprintf(`{"op":"copy","from":"/a","path":"/a/x%d"}`, i))
	}
	p, err := CompilePatch([]byte("[" + strings.Join(ops, ",") + "]"))
	check.NoError(t, err)
	got, err := p.Apply([]byte(`{"a":{"s":"` + strings.Repeat("x", 1<<16) + `"}}`))
	if err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("got %d bytes, %v, want it refused", len(got), err)
	}
}

func TestPatch_Paths(t *testing.T) {
	t.Parallel()
	p, err := CompilePatch([]byte(`[{"op":"move","from":"/a~1b/c","path":"/items/0/sku"},{"op":"test","path":"","value":{}}]`))
	check.NoError(t, err)
	if got, want := fmt.Sprint(p.Paths()), `[$['a/b'].c $.items[*].sku $]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestMasks_CoversPatch(t *testing.T) {
	t.Parallel()
	m := newMasks(t, "$.card.number", "$.items[*].sku", "$.by['7'].x")
	for pointer, want := range map[string]bool{
		"/card/number": true, "/card": true, "/card/number/0": true, "/card/type": false, "/0/card": true, "/items/0/sku": true,
		"/items/-": true, "/items/0/n": false, "/items/sku": true, "/by/7/x": true, "/by/8/x": false, "/by/7/y": false,
	} {
		p, err := CompilePatch([]byte(`[{"op":"copy","from":"` + pointer + `","path":"/new"}]`))
		check.NoError(t, err)
		if got := m.CoversPatch(p); got != want {
			t.Errorf("CoversPatch(%s) = %t, want %t", pointer, got, want)
		}
	}
}

func TestMasks_Patch(t *testing.T) {
	t.Parallel()
	m := newMasks(t, "$.card.number", "$.items[*].sku", "$.pins")
	for _, c := range []struct{ name, patch, want string }{
		{"TheValueItself", `[{"op":"replace","path":"/card/number","value":"4111"}]`, `[{"op":"replace","path":"/card/number","value":"***"}]`},
		{"PathBehind", `[{"value":"4111","path":"/card/number","op":"test"}]`, `[{"value":"***","path":"/card/number","op":"test"}]`},
		{"Above", `[{"op":"add","path":"/card","value":{"number":1,"type":"v"}}]`, `[{"op":"add","path":"/card","value":{"number":"***","type":"v"}}]`},
		{"Below", `[{"op":"add","path":"/pins/0/x","value":1}]`, `[{"op":"add","path":"/pins/0/x","value":"***"}]`},
		{"TheWhole", `[{"op":"replace","path":"","value":{"card":{"number":1}}}]`, `[{"op":"replace","path":"","value":{"card":{"number":"***"}}}]`},
		{"Elements", `[{"op":"add","path":"/items/-","value":{"sku":1,"n":2}}, {"op":"replace","path":"/items/3/sku","value":4}]`, `[{"op":"add","path":"/items/-","value":{"sku":"***","n":2}}, {"op":"replace","path":"/items/3/sku","value":"***"}]`},
		{"Others", `[{"op":"replace","path":"/name","value":{"card":{"number":1}}},{"op":"remove","path":"/card"}]`, `[{"op":"replace","path":"/name","value":{"card":{"number":1}}},{"op":"remove","path":"/card"}]`},
		{"TwoPaths", `[{"path":"/name","path":"/pins","value":1,"value":2}]`, `[{"path":"/name","path":"/pins","value":"***","value":"***"}]`},
		{"NoPatch", `{"path":"/pins","value":1}`, `"***"`},
		{"Broken", `[{"path":"/pins","value":1}`, `"***"`},
	} {
		if got := m.Patch([]byte(c.patch), nil); string(got) != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
	if got := newMasks(t).Patch([]byte("x"), nil); string(got) != "x" {
		t.Errorf("without rules: got %s, want it as it was", got)
	}
}

func TestDiff(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, before, after, want string }{
		{"Same", `{"a":1}`, ` { "a" : 1 }`, `[]`},
		{"Replaced", `{"a":1,"b":2}`, `{"a":3,"b":2}`, `[{"op":"replace","path":"/a","value":3}]`},
		{"BigNumbers", `{"a":9007199254740992,"b":1e400}`, `{"a":9007199254740993,"b":1e400}`, `[{"op":"replace","path":"/a","value":9007199254740993}]`},
		{"HTML", `{"a":"x"}`, `{"a":"<&>"}`, `[{"op":"replace","path":"/a","value":"<&>"}]`},
		{"AnotherKind", `{"a":1}`, `[1]`, `[{"op":"replace","path":"","value":[1]}]`},
		{"NullAndGone", `{"a":1,"b":2,"l":[1,2]}`, `{"a":null,"l":[1],"c":null}`, `[{"op":"replace","path":"/a","value":null},{"op":"remove","path":"/b"},{"op":"add","path":"/c","value":null},{"op":"remove","path":"/l/1"}]`},
		{"OddNames", `{"a/b":1}`, `{"a/b":2}`, `[{"op":"replace","path":"/a~1b","value":2}]`},
	} {
		got, err := Diff([]byte(c.before), []byte(c.after))
		if err != nil || string(got) != c.want {
			t.Errorf("%s: got %s, %v, want %s", c.name, got, err, c.want)
		}
	}
	for _, c := range [][2]string{{"x", "{}"}, {"{}", ""}, {"{} {}", "{}"}} {
		if got, err := Diff([]byte(c[0]), []byte(c[1])); err == nil {
			t.Errorf("Diff(%s, %s) = %s, want an error", c[0], c[1], got)
		}
	}
}

func FuzzPatch(f *testing.F) {
	for _, c := range [][2]string{
		{`{"a":[1,{"b":null}]}`, `[{"op":"add","path":"/a/-","value":1}]`},
		{`{"a":null}`, `[{"op":"test","path":"/a","value":null},{"op":"add","path":"/a/b","value":1}]`},
		{`[[]]`, `[{"op":"move","from":"/0","path":"/0/0"}]`},
		{`{}`, `[{"op":"replace","path":"","value":[]},{"op":"copy","from":"/0","path":"/1"}]`},
		{`[1]`, `[{"op":"replace","path":"/0","value":{}},{"op":"replace","path":"/00","value":2}]`},
	} {
		f.Add([]byte(c[0]), []byte(c[1]))
	}
	f.Fuzz(func(t *testing.T, value, patch []byte) {
		p, err := CompilePatch(patch)
		if err != nil {
			return
		}
		p.Paths()
		got, err := p.Apply(value)
		if err != nil {
			if !errors.Is(err, entity.ErrInvalid) {
				t.Errorf("got %v, want an error of the field", err)
			}
			return
		}
		if !json.Valid(got) {
			t.Fatalf("%s with %s: got %q, want JSON", value, patch, got)
		}
		if _, err := Diff(value, got); err != nil {
			t.Errorf("Diff(%s, %s): %v", value, got, err)
		}
	})
}
