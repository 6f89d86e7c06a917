package attempt

import (
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// TestRetryTurns: while many retries of a topic are under way, another one waits without an attempt. If it waits too
// long, its message is as it was.
func TestRetryTurns(t *testing.T) {
	t.Parallel()
	t.Run("WaitsAndThenGivesUp", scenario(func(b *bench) {
		id := b.Add(1)[0]
		var leave []func()
		for range retriesAtOnce {
			leave = append(leave, check.Must(b.turns.Enter(b.T.Context(), orders))(b))
		}
		began := time.Now()
		check.Is(b, b.retry(id), entity.ErrUnavailable, "a retry without a turn")
		check.Equal(b, time.Since(began), turnTimeout, "time that it waited")
		b.WantState(id, entity.Pending, 0, "")
		time.AfterFunc(turnTimeout/2, leave[0])
		check.NoError(b, b.retry(id))
		b.WantState(id, entity.Resolved, 1, "")
	}))
}
