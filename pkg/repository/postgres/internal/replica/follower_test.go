package replica

import (
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

func TestLSN(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"0/1", "16/B374D848", "FFFFFFFF/FFFFFFFF"} {
		check.Equal(t, check.Must(parseLSN(text))(t).String(), text, "LSN")
	}
	for _, text := range []string{"", "1", "/", "1/", "01/2", "1/b", "1/2 ", "100000000/1", "-1/2"} {
		check.True(t, check.Err(parseLSN(text)) != nil, "%q is an LSN", text)
	}
	check.True(t, check.Must(parseLSN("2/0"))(t) > check.Must(parseLSN("1/FFFFFFFF"))(t), "2/0 is before 1/FFFFFFFF")
}

// TestAge: the age of the replica's data is that of the newest position that the replica has reached, and unknown until
// it has reached one.
func TestAge(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	f := &follower{now: func() time.Time { return noon.Add(10 * time.Second) }}
	for i := range 5 {
		f.written = append(f.written, writtenAt{LSN(100 * (i + 1)), noon.Add(time.Duration(i) * time.Second)})
	}
	for _, tt := range []struct {
		replayed LSN
		age      time.Duration
		known    bool
	}{
		{99, 0, false}, {100, 10 * time.Second, true}, {399, 8 * time.Second, true}, {350, 8 * time.Second, true}, {1000, 6 * time.Second, true},
	} {
		f.advance(tt.replayed)
		age, known := f.age()
		check.True(t, age == tt.age && known == tt.known, "replayed %d: age %s, %t; want %s, %t", tt.replayed, age, known, tt.age, tt.known)
	}
	check.Len(t, f.written, 1, "positions that are kept")
}
