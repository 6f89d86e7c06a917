package payload

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

func TestMasks_Payload(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, value string
		paths       []string
		want        string
		names       []string
	}{
		{"AString", `{"card":{"number":"4111","type":"visa"}}`, []string{"$.card.number"}, `{"card":{"number":"***","type":"visa"}}`, []string{"$.card.number"}},
		{"AnyOtherByteStays", "{ \"b\" :\t1.0e0 ,\n\"a\": 7 , \"b2\":\"\\u0061\" }\n", []string{"$.a"}, "{ \"b\" :\t1.0e0 ,\n\"a\": \"***\" , \"b2\":\"\\u0061\" }\n", []string{"$.a"}},
		{"Whatever", `{"a":{"x":[1]},"b":[1,2],"c":null,"d":true,"e":-1e9}`, []string{"$.a", "$.b", "$.c", "$.d", "$.e"}, `{"a":"***","b":"***","c":"***","d":"***","e":"***"}`, []string{"$.a", "$.b", "$.c", "$.d", "$.e"}},
		{"EveryElement", `{"items":[{"sku":1},{"sku":2,"n":3},4]}`, []string{"$.items[*].sku"}, `{"items":[{"sku":"***"},{"sku":"***","n":3},4]}`, []string{"$.items[*].sku"}},
		{"ElementsThemselves", `{"tags":["a",{"b":1},[2]]}`, []string{"$.tags[*]"}, `{"tags":["***","***","***"]}`, []string{"$.tags[*]"}},
		{"OneWithoutItsArray", `{"items":{"sku":1},"tags":"a"}`, []string{"$.items[*].sku", "$.tags[*]"}, `{"items":{"sku":"***"},"tags":"***"}`, []string{"$.items[*].sku", "$.tags[*]"}},
		{"ArraysThatTheRuleDoesNotName", `[{"card":[{"number":1},[{"number":2}]]}]`, []string{"$.card.number"}, `[{"card":[{"number":"***"},[{"number":"***"}]]}]`, []string{"$.card.number"}},
		{"BothOfTwoMembers", `{"a":1,"a":2,"a":{"b":3}}`, []string{"$.a"}, `{"a":"***","a":"***","a":"***"}`, []string{"$.a"}},
		{"EscapedNames", `{"c\u0061rd":1,"any name":2,"é":3}`, []string{"$.card", "$['any name']", "$.é"}, `{"c\u0061rd":"***","any name":"***","é":"***"}`, []string{"$.card", "$['any name']", "$['é']"}},
		{"TheRuleAboveWins", `{"a":{"b":1}}`, []string{"$.a.b", "$.a"}, `{"a":"***"}`, []string{"$.a"}},
		{"TheWhole", `{"a":1}`, []string{"$"}, `"***"`, []string{"$"}},
		{"ScalarAlone", ` 42 `, []string{"$.a"}, ` 42 `, nil},
		{"NothingThere", `{"b":{"a":1},"A":2}`, []string{"$.a"}, `{"b":{"a":1},"A":2}`, nil},
		{"NotJSON", `card=4111`, []string{"$.a"}, `***`, []string{"$"}},
		{"BrokenJSON", `{"a":1,}`, []string{"$.b"}, `***`, []string{"$"}},
		{"TwoTexts", `{"a":1}{"a":2}`, []string{"$.a"}, `***`, []string{"$"}},
		{"NotJSONWithoutRules", `card=4111`, nil, `card=4111`, nil},
		{"Empty", ``, []string{"$.a"}, ``, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, names := newMasks(t, c.paths...).Read([]byte(c.value), nil).Shown()
			if string(got) != c.want || !slices.Equal(names, c.names) {
				t.Errorf("Payload(%s) = %s %q, want %s %q", c.value, got, names, c.want, c.names)
			}
		})
	}
}

func TestMasks_NullStaysNull(t *testing.T) {
	t.Parallel()
	if got, names := newMasks(t, "$").Read(nil, nil).Shown(); got != nil || names != nil {
		t.Errorf("Payload(nil) = %q %q, want nil: a tombstone hides nothing", got, names)
	}
}

func TestMasks_NeverChangeTheirInput(t *testing.T) {
	t.Parallel()
	value := []byte(`{"a":1,"b":[{"a":2}]}`)
	before := bytes.Clone(value)
	newMasks(t, "$.a", "$.b[*].a").Read(value, nil).Shown()
	if !bytes.Equal(value, before) {
		t.Errorf("got %s, want %s", value, before)
	}
}

func TestMasks_DeepTexts(t *testing.T) {
	t.Parallel()
	value := strings.Repeat("[", 9000) + `{"a":"secret"}` + strings.Repeat("]", 9000)
	got, _ := newMasks(t, "$.a").Read([]byte(value), nil).Shown()
	if bytes.Contains(got, []byte("secret")) {
		t.Error("got the secret, want it masked")
	}
	value = strings.Repeat("[", 20_000) + `{"a":"secret"}` + strings.Repeat("]", 20_000)
	if got, _ := newMasks(t, "$.a").Read([]byte(value), nil).Shown(); string(got) != "***" {
		t.Errorf("got %.20s, want all of it masked: too deep to be read", got)
	}
}

func TestMasks_Header(t *testing.T) {
	t.Parallel()
	m, err := NewMasks(MaskConfig{Headers: []string{"Authorization", "x-secret-*", "*token*", " a*b*c "}})
	check.NoError(t, err)
	for name, want := range map[string]bool{
		"authorization": true, "AUTHORIZATION": true, "authorization2": false,
		"X-Secret-": true, "x-secret-key": true, "x-secre": false,
		"my-Token-id": true, "token": true, "abc": true, "aXbYc": true, "ab": false, "acb": false, "": false,
	} {
		if got := m.Header(name); got != want {
			t.Errorf("Header(%q) = %t, want %t", name, got, want)
		}
	}
}

func TestMasks_CoversPath(t *testing.T) {
	t.Parallel()
	m := newMasks(t, "$.card.number", "$.items[*].sku")
	for text, want := range map[string]bool{
		"$.card.number": true, "$.card.number.first": true, "$.card": true, "$": true, "$[*].card": true, "$.card[*].number": true,
		"$.card.type": false, "$.number": false, "$.items": true, "$.items[*]": true, "$.items[*].sku": true, "$.items.sku": true, "$.items[*].n": false,
	} {
		p, err := ParsePath(text)
		check.NoError(t, err)
		if got := m.CoversPath(p); got != want {
			t.Errorf("CoversPath(%s) = %t, want %t", text, got, want)
		}
	}
}

func TestMasks_Empty(t *testing.T) {
	t.Parallel()
	var none *Masks
	if !none.Empty() || !newMasks(t).Empty() || newMasks(t, "$.a").Empty() || none.Header("a") || none.CoversPath(Path{}) {
		t.Error("want nil and empty masks to mask nothing")
	}
	header, err := NewMasks(MaskConfig{Headers: []string{"a"}})
	if err != nil || header.Version() == none.Version() {
		t.Errorf("%v, want a version that changes with masked headers", err)
	}
	if newMasks(t, "$.a").Version() == newMasks(t, "$.b").Version() || none.Version() != newMasks(t).Version() ||
		newMasks(t, "$.a").Version() != newMasks(t, "$['a']", "$.a").Version() {
		t.Error("want a version that changes with the rules and only then")
	}
}

func TestMaskConfig_NamesEveryProblem(t *testing.T) {
	t.Parallel()
	err := MaskConfig{Payload: []string{"$.ok", "card", "$[0]"}, Headers: []string{"ok", " "}}.Validate()
	for _, want := range []string{`masking.payload[1] "card"`, "masking.payload[2]", "masking.headers[1]"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to name %s", err, want)
		}
	}
	if err := DefaultMaskConfig().Validate(); err != nil {
		t.Errorf("default: got %v, want nil", err)
	}
	if _, err := NewMasks(MaskConfig{Payload: []string{"card"}}); err == nil {
		t.Error("NewMasks: got nil, want the error")
	}
}

func FuzzMask(f *testing.F) {
	for _, s := range []string{`{"a":"s"}`, `{"b":[{"c":"s"},[]]}`, `[[{"a":1}]]`, `{"a":`, `{"\u0061":[{}]}`, "x", `{"a":{"a":1},"b":{"c":"x"}}`} {
		f.Add([]byte(s))
	}
	m, err := NewMasks(MaskConfig{Payload: []string{"$.a", "$.b[*].c"}})
	check.NoError(f, err)
	f.Fuzz(func(t *testing.T, value []byte) {
		got, names := m.Read(value, nil).Shown()
		if json.Valid(value) != json.Valid(got) && len(value) > 0 {
			t.Fatalf("Payload(%q) = %q, want JSON of JSON", value, got)
		}
		if (len(names) == 0) != bytes.Equal(got, value) && !bytes.Contains(value, []byte("***")) {
			t.Errorf("Payload(%q) = %q %q", value, got, names)
		}
		var doc any
		if json.Unmarshal(got, &doc) == nil && leaks(doc) {
			t.Errorf("Payload(%q) = %q, want a masked", value, got)
		}
		if again, _ := m.Read(got, nil).Shown(); !bytes.Equal(again, got) {
			t.Errorf("Payload(%q) = %q, and of that %q", value, got, again)
		}
		m.Patch(value, nil)
	})
}

// leaks reports whether the document, or an object in its nested arrays, has a member a that a JSON reader finds
// unmasked.
func leaks(doc any) bool {
	switch d := doc.(type) {
	case []any:
		return slices.ContainsFunc(d, leaks)
	case map[string]any:
		a, has := d["a"]
		return has && a != "***"
	}
	return false
}
