package payload

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// called are names as a schema gives them, in a form that tests can write.
type called map[string]struct {
	also   []string
	value  called
	branch bool
}

func (c called) Member(name string) ([]string, entity.Names, bool) {
	m := c[name]
	if m.value == nil {
		return append([]string{name}, m.also...), nil, m.branch
	}
	return append([]string{name}, m.also...), m.value, m.branch
}

func (c called) Element() entity.Names { return c }
func (c called) Known() []string       { return slices.Collect(maps.Keys(c)) }

// card is the schema of a union with two branches, of a field with another name in JSON, and of an alias.
var card = called{
	"card": {value: called{
		"pay.Card": {branch: true, value: called{"number": {}, "n": {also: []string{"number"}}}},
		"pay.Bank": {branch: true},
	}},
	"n": {also: []string{"ssn"}},
	"x": {also: []string{"ssn"}},
}

func TestMasks_FollowTheNamesOfTheSchema(t *testing.T) {
	t.Parallel()
	masks := newMasks(t, "$.card.number", "$.ssn")
	for text, want := range map[string]string{
		`{"card":{"number":"4"}}`:                       `{"card":{"number":"***"}}`,
		`{"card":{"pay.Card":{"number":"4","a":1}}}`:    `{"card":{"pay.Card":{"number":"***","a":1}}}`,
		`{"card":{"pay.Card":{"n":"4"}}}`:               `{"card":{"pay.Card":{"n":"***"}}}`,
		`{"card":[{"pay.Card":{"n":"4"}},{"n":"5"}]}`:   `{"card":[{"pay.Card":{"n":"***"}},{"n":"5"}]}`,
		`{"card":{"pay.Bank":{"iban":"4"}},"x":{}}`:     `{"card":{"pay.Bank":{"iban":"4"}},"x":"***"}`,
		`{"n":"4","number":"5"}`:                        `{"n":"***","number":"5"}`,
		`{"card":{"pay.Card":{"\u006eumber":["4"]}}}`:   `{"card":{"pay.Card":{"\u006eumber":"***"}}}`,
		`{"card":{"pay.Bank":{"number":"4"}},"n":null}`: `{"card":{"pay.Bank":{"number":"***"}},"n":"***"}`,
	} {
		got, _ := masks.Read([]byte(text), card).Shown()
		check.Same(t, string(got), want, "of %s", text)
	}
}

// A mask that names the branch of a union, as the JSON shows it, holds too.
func TestMasks_MayNameABranch(t *testing.T) {
	t.Parallel()
	masks := newMasks(t, "$.card['pay.Card'].n")
	got, _ := masks.Read([]byte(`{"card":{"pay.Card":{"n":"4"}}}`), card).Shown()
	check.Same(t, string(got), `{"card":{"pay.Card":{"n":"***"}}}`, "shown")
	patch := `[{"op":"add","path":"/card/pay.Card/n","value":"4"}]`
	check.Same(t, string(masks.Patch([]byte(patch), card)), strings.Replace(patch, `"4"`, `"***"`, 1), "patch")
}

func TestMasks_ReachJSONInStrings(t *testing.T) {
	t.Parallel()
	in := func(times int, text string) string {
		for range times {
			text = quote(text)
		}
		return text
	}
	for _, c := range []struct{ paths, text, want string }{
		{"$.card", in(1, `{"card":"4111","a":1}`), in(1, `{"card":"***","a":1}`)},
		{"$.payload.card", `{"payload":` + in(1, `{"card":"4111"}`) + `,"card":"5"}`, `{"payload":` + in(1, `{"card":"***"}`) + `,"card":"5"}`},
		{"$.card", in(4, `{"card":"4111"}`), in(4, `{"card":"***"}`)},
		{"$.card", in(5, `{"card":"4111"}`), in(4, `"***"`)},
		{"$.a[*].card", `{"a":[` + in(2, ` [{"card":"4111"}]`) + `]}`, `{"a":[` + in(2, `[{"card":"***"}]`) + `]}`},
		{"$.a.card", `{"a":"\u00a0\ufeff{\"card\":1}"}`, `{"a":` + in(1, `{"card":"***"}`) + `}`},
		{"$.a.card", `{"a":"\u200b\u001e{\"card\":1}\u0000"}`, `{"a":` + in(1, `{"card":"***"}`) + `}`},
		{"$.a.card", `{"a":"{\"card\":1"}`, `{"a":"***"}`},
		{"$.a.card", `{"a":" [1,2"}`, `{"a":"***"}`},
		{"$.a.card", `{"a":"\u007b\"card\":1} "}`, `{"a":` + in(1, `{"card":"***"}`) + `}`},
		{"$.a.card", `{"a":"\"unclosed"}`, `{"a":"***"}`},
		{"$.a.card", `{"a":"{\"b\":1}","b":"{\"card\":1"}`, `{"a":"{\"b\":1}","b":"{\"card\":1"}`},
		{"$.a.card", `{"a":"plain {"}`, `{"a":"plain {"}`},
	} {
		masks := newMasks(t, strings.Fields(c.paths)...)
		got, names := masks.Read([]byte(c.text), nil).Shown()
		check.Same(t, string(got), c.want, "of %s", c.text)
		check.Same(t, len(names) > 0, c.want != c.text, "names %q of %s", names, c.text)
	}
}

func TestMasks_OfKeys(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ paths, key, want string }{
		{"$.ssn", "customer-42", "customer-42"},
		{"$.ssn", "42", "42"},
		{"$.ssn", "注文 42", "注文 42"},
		{"$.ssn", `{"ssn":"222"}`, `{"ssn":"***"}`},
		{"$.ssn", `{"ssn":"222"`, `***`},
		{"$.ssn", `"{\"ssn\":1}"`, `"{\"ssn\":\"***\"}"`},
		{"$.ssn", "\x00\x00\x00\x00\x03\x16123-45-6789", "***"},
		{"$.ssn", "\xff", "***"},
		{"$.ssn", `null {"ssn":1}`, "***"},
		{"$", "customer-42", "***"},
		{"$[*]", "42", `"***"`},
		{"$", "", ""},
		{"", "\xff", "\xff"},
	} {
		r := newMasks(t, strings.Fields(c.paths)...).ReadPart(&entity.Record{Key: []byte(c.key)}, entity.KeyPart, entity.Decoded{})
		got, _ := r.Shown()
		check.Same(t, string(got), c.want, "of %q", c.key)
		check.Same(t, r.Hides(), c.want != c.key, "of %q", c.key)
	}
	undecoded := newMasks(t, "$.a").ReadPart(&entity.Record{}, entity.ValuePart, entity.Decoded{Format: entity.Avro, Omitted: entity.SchemaError})
	check.True(t, undecoded.Hides(), "a part that cannot be decoded is shown")
}

func TestReading_Touches(t *testing.T) {
	t.Parallel()
	text := `{"card":{"pay.Card":{"n":"4","a":1}},"list":[{"x":1},{"y":2}],"s":"{\"ssn\":1}","free":{"b":1}}`
	names := called{"card": card["card"], "list": {value: called{"x": {also: []string{"ssn"}}}}}
	r := newMasks(t, "$.card.number", "$.list[*].ssn", "$.s.ssn").Read([]byte(text), names)
	for patch, want := range map[string]bool{
		`[{"op":"test","path":"/card/pay.Card/n","value":"4"}]`:                    true,
		`[{"op":"copy","from":"/card/pay.Card","path":"/free/c"}]`:                 true,
		`[{"op":"copy","from":"/card","path":"/free/c"}]`:                          true,
		`[{"op":"replace","path":"/card/pay.Card/a","value":2}]`:                   false,
		`[{"op":"copy","from":"/list/1","path":"/free/c"}]`:                        true,
		`[{"op":"copy","from":"/list/1/y","path":"/free/c"}]`:                      false,
		`[{"op":"copy","from":"/list/7/x","path":"/free/c"}]`:                      true,
		`[{"op":"move","from":"/s","path":"/free/c"}]`:                             true,
		`[{"op":"add","path":"/free/d","value":1}]`:                                false,
		`[{"op":"add","path":"/free/d","value":1},{"op":"remove","path":"/list"}]`: true,
	} {
		p := check.Must(CompilePatch([]byte(patch)))(t)
		check.Same(t, r.Touches(p), want, "of %s", patch)
	}
}

func TestMasks_PatchFollowsTheNamesOfTheSchema(t *testing.T) {
	t.Parallel()
	masks := newMasks(t, "$.card.number", "$.ssn")
	for patch, want := range map[string]string{
		`[{"op":"replace","path":"/card/pay.Card/n","value":"4"}]`:                `[{"op":"replace","path":"/card/pay.Card/n","value":"***"}]`,
		`[{"value":{"pay.Card":{"n":"4","a":1}},"op":"add","path":"/card"}]`:      `[{"value":{"pay.Card":{"n":"***","a":1}},"op":"add","path":"/card"}]`,
		`[{"op":"add","path":"/x","value":1},{"op":"add","path":"/y","value":1}]`: `[{"op":"add","path":"/x","value":"***"},{"op":"add","path":"/y","value":1}]`,
	} {
		check.Same(t, string(masks.Patch([]byte(patch), card)), want, "of %s", patch)
	}
}

// TestReading_HidesEverywhere: whatever schema, masks and value: a value at a masked path, by any of its names and within
// strings, is in no text, scalar or facet value, and has terms only at paths that only those may search who may see it.
func TestReading_HidesEverywhere(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		w := secretWriter{T: r}
		var paths []string
		for range rapid.IntRange(1, 3).Draw(r, "masks") {
			var steps []string
			for range rapid.IntRange(1, 3).Draw(r, "steps") {
				steps = append(steps, rapid.SampledFrom([]string{".a", ".b", ".c", "[*]"}).Draw(r, "step"))
			}
			paths = append(paths, "$"+strings.Join(steps, ""))
		}
		masks := newMasks(t, paths...)
		text, names := w.value(masks.rules().begin(), masks.rules(), 4, 0)
		reading := masks.Read([]byte(text), names)
		shown, _ := reading.Shown()
		var all []string
		all = append(all, string(shown), reading.Text(1<<20))
		reading.Scalars(1000, func(_ string, v Value) { all = append(all, v.Text) })
		asked := parsed(t, "$", "$.a", "$.b", "$.a.b", "$.a[*].b", "$.u", "$.u.a", "$.a.u.b", "$.j1", "$.a.j2")
		reading.Values(asked, 1000, func(_ int, v Value) { all = append(all, v.Text) })
		for _, leak := range all {
			if at := strings.Index(leak, "secret"); at >= 0 {
				r.Fatalf("the masks %q leave %q of %s: %s", paths, leak[at:min(len(leak), at+12)], text, leak)
			}
		}
		if strings.Contains(text, "open") && !strings.Contains(text, "secret") && !strings.Contains(string(shown), "open") && !json.Valid([]byte(text)) {
			r.Fatalf("the masks %q hide all of %s", paths, text)
		}
		terms := reading.Terms(1000)
		for _, p := range w.paths {
			path := check.Must(ParsePath(p.path))(t)
			if term := entity.FieldTerm(path.String(), quote(p.secret)); slices.Contains(terms, term) && !masks.CoversPath(path) {
				r.Fatalf("a search of %s finds %s of %s, masks %q", path, p.secret, text, paths)
			}
		}
	})
}

// secretWriter writes random values in which all that masks must hide contains the word secret, together with the names
// of a schema.
type secretWriter struct {
	*rapid.T
	n     int
	path  []string
	paths []struct{ path, secret string }
}

// value writes a value. states are those of the masks for it, by the names of the schema; strings counts the strings
// around it.
func (w *secretWriter) value(states []state, masks rules, depth, strings_ int) (string, called) {
	single := make([]state, len(states))
	for i, s := range states {
		single[i] = masks.single(s)
	}
	kind := rapid.IntRange(0, 6).Draw(w.T, "kind")
	if depth == 0 {
		kind = 0
	}
	switch kind {
	case 1, 2, 3:
		return w.object(single, masks, depth, strings_)
	case 4:
		var next []state
		for _, s := range states {
			next = append(next, masks.element(s))
		}
		w.path = append(w.path, "[*]")
		item, names := w.value(next, masks, depth-1, strings_)
		w.path = w.path[:len(w.path)-1]
		return "[" + item + "]", names
	case 5:
		if strings_ < maxStrings {
			text, _ := w.value(states, masks, depth-1, strings_+1)
			return quote(text), nil
		}
	}
	w.n++
	word := fmt.Sprintf("open%d", w.n)
	if slices.ContainsFunc(single, masks.finished) {
		word = fmt.Sprintf("secret%d", w.n)
		w.paths = append(w.paths, struct{ path, secret string }{"$" + strings.Join(w.path, ""), word})
	}
	return quote(word), nil
}

func (w *secretWriter) object(states []state, masks rules, depth, strings_ int) (string, called) {
	names := called{}
	var members []string
	for i := range rapid.IntRange(1, 3).Draw(w.T, "members") {
		kind := rapid.IntRange(0, 3).Draw(w.T, "member")
		if strings_ > 0 {
			kind = 0 // JSON within a string has no schema
		}
		known := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(w.T, "known")
		shown, next := known, slices.Clone(states)
		switch kind {
		case 1: // JSON has another name
			shown = fmt.Sprintf("j%d", i)
		case 2: // a branch
			shown = "u"
		}
		m := names[shown]
		if kind != 2 {
			next = masks.follow(states, known, true, false)
		}
		if kind == 1 {
			m.also = []string{known}
		}
		m.branch = kind == 2
		if _, twice := names[shown]; twice {
			continue
		}
		w.path = append(w.path, "."+shown)
		var text string
		text, m.value = w.value(next, masks, depth-1, strings_)
		w.path = w.path[:len(w.path)-1]
		names[shown] = m
		members = append(members, quote(shown)+":"+text)
	}
	return "{" + strings.Join(members, ",") + "}", names
}
