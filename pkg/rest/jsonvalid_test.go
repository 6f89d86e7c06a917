package rest

import (
	"encoding/json"
	"strings"
	"testing"
)

// validSeeds are texts at the borders of the grammar.
var validSeeds = []string{
	``, ` `, `{}`, `[]`, ` { } `, `[ ]`, `{"a":1}`, `{"a":1,"b":[1,2,{"c":null}]}`, `[[[]],{}]`, `{"a":{}}`, `{"a":[]}`,
	`{"a"}`, `{"a":}`, `{,}`, `[,]`, `[1,]`, `{"a":1,}`, `{1:2}`, `[1 2]`, `{"a" : 1 , "b" : 2}`, `{]`, `[}`, `[`, `{`, `]`, `}`, `[[]`, `{"a":1`, `{"a":[}`,
	`"`, `""`, `"a`, `"\"`, `"\\"`, `"\u12"`, `"\u12g4"`, `"\u12aF"`, `"\x"`, "\"\n\"", "\"\x7f\"", "\"\xff\"", `"\`, `"\u123`,
	`0`, `-`, `-0`, `00`, `01`, `1.`, `1.0`, `.1`, `1e`, `1e+`, `1E-5`, `-1.5e10`, `1e5.5`, `+1`, `0x1`, `1a`,
	`true`, `tru`, `truee`, `false`, `null`, `nul`, `nullnull`, `true false`, "1\v", "\ufeff1", "1\n\r\t ", `{"a":1}}`, `[1]]`,
}

func FuzzValidJSON(f *testing.F) {
	for _, s := range validSeeds {
		f.Add([]byte(s))
	}
	f.Add([]byte(strings.Repeat("[", 100) + strings.Repeat("]", 100)))
	f.Add([]byte(strings.Repeat(`{"a":[`, 100) + strings.Repeat("]}", 100)))
	f.Fuzz(func(t *testing.T, text []byte) {
		if deeperThan(text, validatorDepth) {
			return // the other one gives up
		}
		if got, want := validJSON(text), json.Valid(text); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	})
}

func BenchmarkValidJSON(b *testing.B) {
	text := []byte(`{"id": 17, "customer": {"id": 4, "name": "Customer \"4\""}, "items": [1, 2.5e3, true, null], "note": "` +
		strings.Repeat("0123456789abcdef", 60) + `"}`)
	for name, valid := range map[string]func([]byte) bool{"Own": validJSON, "Library": json.Valid} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if !valid(text) {
					b.Fatal("not valid")
				}
			}
		})
	}
}

// TestValidJSON_AnyByteAnywhere: strings are looked at in pieces, and no piece may
// hide what does not belong into one.
func TestValidJSON_AnyByteAnywhere(t *testing.T) {
	t.Parallel()
	for length := range 26 {
		for at := range length {
			for c := range 256 {
				text := []byte(`"` + strings.Repeat("a", length) + `"`)
				text[1+at] = byte(c)
				if got, want := validJSON(text), json.Valid(text); got != want {
					t.Fatalf("%q: got %v, want %v", text, got, want)
				}
			}
		}
	}
}
