package main

import (
	"fmt"
	"strings"
	"testing"
)

func TestEachLine(t *testing.T) {
	t.Parallel()
	var got []string
	note := func(line []byte) error { got = append(got, string(line)); return nil }
	size, err := eachLine(strings.NewReader("one\ntwo\n"), note)
	if err != nil || size != 8 || fmt.Sprint(got) != "[one\n two\n]" {
		t.Errorf("eachLine = %d bytes of %q, %v, want 8 of both", size, got, err)
	}
	if _, err := eachLine(strings.NewReader("one\ntw"), note); err == nil {
		t.Error("eachLine of a last line without an end = nil, want an error: the export was cut off")
	}
	if size, err := eachLine(strings.NewReader(""), note); err != nil || size != 0 {
		t.Errorf("eachLine of nothing = %d, %v, want 0", size, err)
	}
}

func TestIDOf(t *testing.T) {
	t.Parallel()
	const id = "01890af0-1234-7abc-8000-0123456789ab"
	if got, err := idOf([]byte(`{"id":"` + id + `","original_topic":"x"}`)); err != nil || got.String() != id {
		t.Errorf("idOf = %s, %v, want %s", got, err, id)
	}
	for _, bad := range []string{``, `{"error":"x"}`, `{"id":"` + id[:35], `{"id":"` + strings.Replace(id, "-", "x", 1) + `"}`} {
		if got, err := idOf([]byte(bad)); err == nil {
			t.Errorf("idOf(%q) = %s, want an error", bad, got)
		}
	}
}

func TestExportLines(t *testing.T) {
	t.Parallel()
	for memory, want := range map[int64]int{127e6: 0, 128e6: 1, 0: 1} {
		p := &exportPart{out: exported{memory: memory}}
		if got := missed(p.lines()); len(got) != want {
			t.Errorf("%d bytes: missed %q, want %d", memory, got, want)
		}
	}
}
