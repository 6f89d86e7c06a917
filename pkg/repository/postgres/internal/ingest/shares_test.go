package ingest

import (
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
)

// TestOneLargeCompletionAmongSmallOnes: when one value is much larger than the others, building the arguments of
// completeQuery allocates less than 16 times the size of that value.
func TestOneLargeCompletionAmongSmallOnes(t *testing.T) {
	t.Parallel()
	const large = 1 << 20
	read, messages := make([]repository.Completion, 400), make([]entity.Message, 400)
	read[7].Record.Value = make([]byte, large)
	s := NewShares(&conn.DB{}, PayloadNever, 0)
	measured := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s.completionArgs(messages, read)
		}
	})
	check.True(t, measured.AllocedBytesPerOp() < 16*large, "completionArgs allocates %d bytes for a value of %d", measured.AllocedBytesPerOp(), large)
}
