package diff_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/consoletest"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/diff"
)

func TestDifferenceTakesTwoBytesForAPair(t *testing.T) {
	a, b := make([]string, 1000), make([]string, 1000)
	for i := range a {
		a[i], b[i] = fmt.Sprint("a", i), fmt.Sprint("b", i)
	}
	if took := consoletest.Allocated(func() { diff.Lines(strings.Join(a, "\n"), strings.Join(b, "\n")) }); took > 3<<20 {
		t.Errorf("got %d bytes allocated, want at most %d", took, 3<<20)
	}
}
