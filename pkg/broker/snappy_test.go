package broker

import (
	"bytes"
	"io"
	"testing"

	"github.com/klauspost/compress/s2"
)

// Go's encoder makes one block of a whole batch, and refers back as far as that goes.
func TestInflate_SnappyBlockOfTenMegabytes(t *testing.T) {
	t.Parallel()
	want := bytes.Repeat([]byte("0123456789"), 1<<20)
	i := new(inflater)
	r, err := i.open(codecSnappy, s2.EncodeSnappy(nil, want), 2)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %d bytes, %v, want %d", len(got), err, len(want))
	}
}
