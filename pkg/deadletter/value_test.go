package deadletter

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
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
		{"1234", 1234, true}, // not the big-endian reading of four digits
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
		{" 1", 8241, true}, // two bytes that are not decimal are binary
	}
	for _, tt := range tests {
		got, ok := number([]byte(tt.in))
		check.True(t, (got == tt.want || !ok) && ok == tt.ok, "number(%q) = %d, %v, want %d, %v", tt.in, got, ok, tt.want, tt.ok)
	}
}

func TestNumbersOutOfRangeCountAsAbsent(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"-1", "1000001", "\xff\xff\xff\xff", "9999999999999"} {
		check.Equal(t, partition([]byte(in)), nil, "partition(%q)", in)
	}
	for _, in := range []string{"-1", "-9223372036854775808", "\xff\xff\xff\xff\xff\xff\xff\xff"} {
		check.Equal(t, offset([]byte(in)), nil, "offset(%q)", in)
	}
	for _, in := range []string{"-1", "1000001"} {
		check.Equal(t, attempts([]byte(in)), nil, "attempts(%q)", in)
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
		got := timestamp([]byte(in))
		check.True(t, got.Equal(want) && got.Location() == time.UTC, "timestamp(%q) = %v, want %v", in, got, want)
	}
	for _, in := range []string{
		"", "-1", "0", "946684799", "4102444800000", "9223372036854775807", "-9223372036854775808",
		"yesterday", "2024-05-01", "1999-12-31T23:59:59Z", "2100-01-01T00:00:00Z", strings.Repeat("2", 100),
	} {
		check.Equal(t, timestamp([]byte(in)), time.Time{}, "timestamp(%q)", in)
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
		got, ok := bigInteger([]byte(tt.in))
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
		{"aé", 2, "a"}, // é is two bytes: cut before it
		{"a\xffb", 10, "a\uFFFDb"},
		{"a\x00b", 10, "a\uFFFDb"},
		{"\x00\x00", 4, "\uFFFD"}, // the replacement is longer than the replaced byte
		{"\x80\x80\x80\x80\x80\x80", 5, "\uFFFD"},
	}
	for _, tt := range tests {
		check.Equal(t, cleanText([]byte(tt.in), tt.limit), tt.want, "cleanText(%q, %d)", tt.in, tt.limit)
	}
}

func TestEveryDerivedTextIsCleanAndBounded(t *testing.T) {
	t.Parallel()
	dirty := bytes.Repeat([]byte("é\xff\x00"), 1<<20)
	var h []entity.Header
	for _, key := range []string{"exception-fqcn", "exception-cause-fqcn", "exception-message", "exception-stacktrace", "original-consumer-group", "original-topic"} {
		h = append(h, entity.Header{Key: "kafka_dlt-" + key, Value: dirty})
	}
	r := decoder(t, []string{"*-dlt"}).Decode("orders-dlt", entity.Record{Headers: h}, time.Time{}, nil)
	for _, tt := range []struct {
		name, text string
		limit      int
	}{
		{"error message", r.ErrorMessage, MaxErrorMessage},
		{"class", r.Failure.Class, MaxErrorClass},
		{"stack trace", r.Failure.StackTrace, MaxStackTrace},
		{"consumer group", r.Failure.ConsumerGroup, MaxConsumerGroup},
	} {
		check.True(t, len(tt.text) <= tt.limit && len(tt.text) >= tt.limit-utf8.UTFMax,
			"%s has %d bytes, want nearly %d", tt.name, len(tt.text), tt.limit)
		check.True(t, utf8.ValidString(tt.text) && !strings.Contains(tt.text, "\x00"), "%s is not clean text", tt.name)
	}
	check.True(t, r.OriginalTopic == "", "original topic = %.20q, want unknown", r.OriginalTopic)
}
