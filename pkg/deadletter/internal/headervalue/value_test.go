package headervalue

import (
	"strings"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

func TestNumber(t *testing.T) {
	t.Parallel()
	tests := []struct {
		in   string
		want int64
		ok   bool
	}{
		{"", 0, false},
		{"0", 0, true},
		{"-1", -1, true},
		{"1234", 1234, true}, // read as decimal text, not as a big-endian number of four bytes
		{"12345678", 12345678, true},
		{"\x00\x00\x00\x03", 3, true},
		{"\xff\xff\xff\xff", -1, true},
		{"\x00\x00\x00\x00\x00\x00\x04\xd2", 1234, true},
		{"\x00\x04", 4, true},
		{"\x04", 4, true},
		{"\x01\x02\x03", 0, false},
		{"\x01\x02\x03\x04\x05\x06", 0, false},
		{"-", 0, false},
		{"abcd", 0, false},
		{"abcdefgh", 0, false},
		{"9223372036854775807", 9223372036854775807, true},
		{"9223372036854775808", 0, false},
		{"1.5", 0, false},
		{" 1", 8241, true}, // not decimal, so the two bytes are a big-endian number
	}
	for _, tt := range tests {
		got, ok := Number([]byte(tt.in))
		check.True(t, (got == tt.want || !ok) && ok == tt.ok, "number(%q) = %d, %v, want %d, %v", tt.in, got, ok, tt.want, tt.ok)
	}
}

func TestNumbersOutOfRangeCountAsAbsent(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"-1", "1000001", "\xff\xff\xff\xff", "9999999999999"} {
		check.Equal(t, Partition([]byte(in)), nil, "partition(%q)", in)
	}
	for _, in := range []string{"-1", "-9223372036854775808", "\xff\xff\xff\xff\xff\xff\xff\xff"} {
		check.Equal(t, Offset([]byte(in)), nil, "offset(%q)", in)
	}
	for _, in := range []string{"-1", "1000001"} {
		check.Equal(t, Attempts([]byte(in)), nil, "attempts(%q)", in)
	}
}

func TestTimestamp(t *testing.T) {
	t.Parallel()
	want := time.Date(2024, 5, 1, 9, 0, 0, 0, time.UTC)
	for _, in := range []string{
		"1714554000000", "1714554000", "1714554000000000", "1714554000000000000",
		"2024-05-01T09:00:00Z", "2024-05-01T09:00:00.0000000Z", "2024-05-01T11:00:00+02:00",
		"\x00\x00\x01\x8f\x33\x61\xd2\x80",
	} {
		got := Timestamp([]byte(in))
		check.True(t, got.Equal(want) && got.Location() == time.UTC, "timestamp(%q) = %v, want %v", in, got, want)
	}
	for _, in := range []string{
		"", "-1", "0", "946684799", "4102444800000", "9223372036854775807", "-9223372036854775808",
		"yesterday", "2024-05-01", "1999-12-31T23:59:59Z", "2100-01-01T00:00:00Z", strings.Repeat("2", 100),
	} {
		check.Equal(t, Timestamp([]byte(in)), time.Time{}, "timestamp(%q)", in)
	}
}

func TestBigInteger(t *testing.T) {
	t.Parallel()
	tests := []struct {
		in   string
		want int64
		ok   bool
	}{
		{"", 0, false},
		{"\x01\x8f\x33\x61\xd2\x80", 1714554000000, true},
		{"\xff", -1, true},
		{"\x31", 49, true},
		{"\x7f\xff\xff\xff\xff\xff\xff\xff", 1<<63 - 1, true},
		{"123456789", 0, false},
	}
	for _, tt := range tests {
		got, ok := BigInteger([]byte(tt.in))
		check.True(t, got == tt.want && ok == tt.ok, "bigInteger(%q) = %d, %v, want %d, %v", tt.in, got, ok, tt.want, tt.ok)
	}
}

func TestCleanText(t *testing.T) {
	t.Parallel()
	tests := []struct {
		in    string
		limit int
		want  string
	}{
		{"", 10, ""},
		{"plain", 10, "plain"},
		{"plain", 3, "pla"},
		{"aé", 2, "a"}, // é has two bytes, so the text is cut before it
		{"a\xffb", 10, "a\uFFFDb"},
		{"a\x00b", 10, "a\uFFFDb"},
		{"\x00\x00", 4, "\uFFFD"}, // U+FFFD is longer than the NUL that it replaces, so only one fits into the limit
		{"\x80\x80\x80\x80\x80\x80", 5, "\uFFFD"},
	}
	for _, tt := range tests {
		check.Equal(t, Text([]byte(tt.in), tt.limit), tt.want, "cleanText(%q, %d)", tt.in, tt.limit)
	}
}
