package inflate

import (
	"bytes"
	"io"
	"testing"

	"github.com/klauspost/compress/s2"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// Go's encoder makes one block of a whole batch, and refers back over the block's whole length.
func TestInflate_SnappyBlockOfTenMegabytes(t *testing.T) {
	t.Parallel()
	want := bytes.Repeat([]byte("0123456789"), 1<<20)
	i := new(Inflater)
	r := check.Must(i.Open(Snappy, s2.EncodeSnappy(nil, want), 2))(t)
	got, err := io.ReadAll(r)
	check.True(t, err == nil && bytes.Equal(got, want), "got %d bytes, %v, want %d", len(got), err, len(want))
}
