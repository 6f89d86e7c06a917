package payload

import (
	"encoding/json"
	"strings"
	"testing"
)

// validSeeds are JSON texts, valid and invalid, that use the unusual parts of the grammar.
var validSeeds = []string{
	``, ` `, `null`, `true`, `false`, `0`, `-0`, `-`, `01`, `1.`, `1.5`, `.5`, `1e5`, `1E+5`, `1e-05`, `1e`, `-1.25e-7`,
	`""`, `"a"`, `"\n\"\\\/\b\f\r\t"`, `"\x"`, `"\u0041"`, `"\u00g1"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\ud83d\u0041"`, `"\ude00"`,
	"\"\x01\"", "\"\x7f\"", `"grüße"`, `[]`, `[ ]`, `[1]`, `[1,2]`, `[1,]`, `[,1]`, `[1 2]`, `[`, `]`, `[]]`, `[[]]`, `[[],[]]`,
	`{}`, `{ }`, `{"a":1}`, `{"a":1,"b":[{"c":null}]}`, `{"a":1,}`, `{"a"}`, `{"a":}`, `{a:1}`, `{1:1}`, `{"a":1]`, `[1}`,
	` { "a" : [ 1 , 2.5 , "x" ] , "b" : { } } `, `nul`, `nulll`, `truefalse`, `1 1`, `{} {}`, "\ufeff{}", "[1]\x00",
	strings.Repeat("[", MaxScan) + strings.Repeat("]", MaxScan),
	``, ` `, `{}`, `[]`, ` { } `, `[ ]`, `{"a":1}`, `{"a":1,"b":[1,2,{"c":null}]}`, `[[[]],{}]`, `{"a":{}}`, `{"a":[]}`,
	`{"a"}`, `{"a":}`, `{,}`, `[,]`, `[1,]`, `{"a":1,}`, `{1:2}`, `[1 2]`, `{"a" : 1 , "b" : 2}`, `{]`, `[}`, `[`, `{`, `]`, `}`, `[[]`, `{"a":1`, `{"a":[}`,
	`"`, `""`, `"a`, `"\"`, `"\\"`, `"\u12"`, `"\u12g4"`, `"\u12aF"`, `"\x"`, "\"\n\"", "\"\x7f\"", "\"\xff\"", `"\`, `"\u123`,
	`0`, `-`, `-0`, `00`, `01`, `1.`, `1.0`, `.1`, `1e`, `1e+`, `1E-5`, `-1.5e10`, `1e5.5`, `+1`, `0x1`, `1a`,
	`true`, `tru`, `truee`, `false`, `null`, `nul`, `nullnull`, `true false`, "1\v", "\ufeff1", "1\n\r\t ", `{"a":1}}`, `[1]]`,
}

// TestScanAgreesWithTheGrammar: Valid accepts exactly those of the test's texts that encoding/json accepts.
func TestScanAgreesWithTheGrammar(t *testing.T) {
	t.Parallel()
	for _, text := range validSeeds {
		wantSameGrammar(t, text)
		for cut := range len(text) { // checks each beginning of the text, and the text with an x at each position
			wantSameGrammar(t, text[:cut])
			wantSameGrammar(t, text[:cut]+"x"+text[cut:])
		}
	}
}

func wantSameGrammar(t *testing.T, text string) {
	t.Helper()
	if got, want := Valid([]byte(text)), json.Valid([]byte(text)); got != want {
		t.Errorf("Valid(%.80q) = %v, want %v", text, got, want)
	}
}

func FuzzValidJSON(f *testing.F) {
	for _, s := range validSeeds {
		f.Add([]byte(s))
	}
	f.Add([]byte(strings.Repeat("[", MaxScan+1) + strings.Repeat("]", MaxScan+1)))
	f.Add([]byte(strings.Repeat(`{"a":[`, 100) + strings.Repeat("]}", 100)))
	f.Fuzz(func(t *testing.T, text []byte) {
		wantSameGrammar(t, string(text))
	})
}

func BenchmarkValidJSON(b *testing.B) {
	text := []byte(`{"id": 17, "customer": {"id": 4, "name": "Customer \"4\""}, "items": [1, 2.5e3, true, null], "note": "` +
		strings.Repeat("0123456789abcdef", 60) + `"}`)
	for name, valid := range map[string]func([]byte) bool{"Own": Valid, "Library": json.Valid} {
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

// TestValidJSON_AnyByteAnywhere: strings are scanned in chunks, and an invalid byte must be found at any position of
// a chunk.
func TestValidJSON_AnyByteAnywhere(t *testing.T) {
	t.Parallel()
	for length := range 26 {
		for at := range length {
			for c := range 256 {
				text := []byte(`"` + strings.Repeat("a", length) + `"`)
				text[1+at] = byte(c)
				if got, want := Valid(text), json.Valid(text); got != want {
					t.Fatalf("%q: got %v, want %v", text, got, want)
				}
			}
		}
	}
}

// TestTextIsSkippedUpToWhatEndsIt: plain skips a string up to the first quote, backslash or control character. The test
// puts each byte at each position of an eight-byte word, next to bytes for which the arithmetic on whole words could go
// wrong.
func TestTextIsSkippedUpToWhatEndsIt(t *testing.T) {
	t.Parallel()
	for _, filler := range []string{"a", " ", "!", "#", "[", "]", "\x7f", "\x80", "\xff", "\x1f", `"`, `\`, "\x00"} {
		for c := range 256 {
			for at := range 20 {
				text := []byte(strings.Repeat("a", at) + string([]byte{byte(c)}) + strings.Repeat(filler, 20-at))
				want := 0
				for want < len(text) && text[want] >= ' ' && text[want] != '"' && text[want] != '\\' {
					want++
				}
				s := scan{b: text}
				if s.plain(); s.i != want {
					t.Fatalf("plain(%q) goes on to %d, want %d", text, s.i, want)
				}
			}
		}
	}
}
