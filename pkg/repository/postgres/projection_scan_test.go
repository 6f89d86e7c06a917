package postgres

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestScanAgreesWithTheGrammar: what the scan calls JSON, and nothing else, is
// what encoding/json calls JSON, as long as it is not too deep.
func TestScanAgreesWithTheGrammar(t *testing.T) {
	t.Parallel()
	for _, text := range grammar() {
		wantSameGrammar(t, []byte(text))
		for cut := range len(text) { // every way in which it may have been cut off
			wantSameGrammar(t, []byte(text[:cut]))
			wantSameGrammar(t, []byte(text[:cut]+"x"+text[cut:]))
		}
	}
}

func FuzzScanAgreesWithTheGrammar(f *testing.F) {
	for _, text := range grammar() {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, value []byte) { wantSameGrammar(t, value) })
}

func grammar() []string {
	return []string{
		``, ` `, `null`, `true`, `false`, `0`, `-0`, `-`, `01`, `1.`, `1.5`, `.5`, `1e5`, `1E+5`, `1e-05`, `1e`, `-1.25e-7`,
		`""`, `"a"`, `"\n\"\\\/\b\f\r\t"`, `"\x"`, `"\u0041"`, `"\u00g1"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\ud83d\u0041"`, `"\ude00"`,
		"\"\x01\"", "\"\x7f\"", `"grüße"`, `[]`, `[ ]`, `[1]`, `[1,2]`, `[1,]`, `[,1]`, `[1 2]`, `[`, `]`, `[]]`, `[[]]`, `[[],[]]`,
		`{}`, `{ }`, `{"a":1}`, `{"a":1,"b":[{"c":null}]}`, `{"a":1,}`, `{"a"}`, `{"a":}`, `{a:1}`, `{1:1}`, `{"a":1]`, `[1}`,
		` { "a" : [ 1 , 2.5 , "x" ] , "b" : { } } `, `nul`, `nulll`, `truefalse`, `1 1`, `{} {}`, "\ufeff{}", "[1]\x00",
		strings.Repeat("[", projectionMaxDepth) + strings.Repeat("]", projectionMaxDepth),
	}
}

func wantSameGrammar(t *testing.T, value []byte) {
	t.Helper()
	note := projectable(value, 1<<20)
	if note == noteTooDeep {
		return
	}
	if got, want := note != noteNotJSON, utf8.Valid(value) && json.Valid(value); got != want {
		t.Errorf("projectable(%.80q) says %q, want JSON to be %v", value, note, want)
	}
}

// TestTextIsSkippedUpToWhatEndsIt puts every byte at every place of a word, in front
// of and behind others that the arithmetic on whole words could mistake.
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
				s := jsonScan{b: text}
				if s.plain(); s.i != want {
					t.Fatalf("plain(%q) goes on to %d, want %d", text, s.i, want)
				}
			}
		}
	}
}

func BenchmarkProjectable(b *testing.B) {
	value := []byte(`{"id":12345,"customer":{"id":"C-527","name":"Chiara Sato","country":"JP"},"items":[` +
		strings.Repeat(`{"product":"P-100","title":"Espresso cup, set of 4","quantity":2,"unit_price":24.90},`, 10) +
		`{"product":"P-104"}],"amount":63.30,"currency":"EUR","placed_at":"2026-11-21T09:01:30.553Z"}`)
	b.SetBytes(int64(len(value)))
	b.ReportAllocs()
	for b.Loop() {
		if note := projectable(value, DefaultPayloadLimit); note != "" {
			b.Fatal(note)
		}
	}
}
