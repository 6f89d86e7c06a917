package entity

import "testing"

func TestRecordHash(t *testing.T) {
	t.Parallel()
	seen := map[int64]string{}
	for _, r := range [][2]string{
		{"ab", "c"}, {"a", "bc"}, {"c", "ab"}, {"a", "b"}, {"A", "b"}, {"a", "b\x00"}, {"\x00", "\x00"},
	} {
		n := RecordHash([]byte(r[0]), []byte(r[1]))
		if other, taken := seen[n]; n == 0 || taken {
			t.Errorf("RecordHash(%q, %q) = %d, want one that no other record has, but %q", r[0], r[1], n, other)
		}
		seen[n] = r[0] + "|" + r[1]
		if again := RecordHash([]byte(r[0]), []byte(r[1])); again != n {
			t.Errorf("RecordHash(%q, %q) = %d and then %d, want the same", r[0], r[1], n, again)
		}
	}
	for _, r := range [][2][]byte{{nil, {'v'}}, {{'k'}, nil}, {{}, {'v'}}, {{'k'}, {}}, {nil, nil}} {
		if n := RecordHash(r[0], r[1]); n != 0 {
			t.Errorf("RecordHash(%q, %q) = %d, want 0", r[0], r[1], n)
		}
	}
	// Hashes are stored. If the function changed, the records of earlier attempts would not be recognised any more.
	if n, want := RecordHash([]byte("order-1"), []byte(`{"order": 1}`)), int64(8964738505454399299); n != want {
		t.Errorf("RecordHash = %d, want %d for ever", n, want)
	}
}
