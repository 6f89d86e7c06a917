package republisher

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/recordtest"
)

func TestAllocations(t *testing.T) { //nolint:paralleltest // other tests allocate too
	recordtest.Allocations(t, recordPaths(t))
}

func BenchmarkRecord(b *testing.B) { recordtest.Benchmark(b, recordPaths(b)) }

func recordPaths(tb testing.TB) []recordtest.Path {
	tb.Helper()
	r := &Republisher{cfg: DefaultConfig(), now: time.Now, decoder: check.Must(deadletter.New(deadletter.DefaultConfig(), deadletter.Patterns{}))(tb)}
	m := entity.NewMessage("orders", "boom", time.Now())
	m.Claim.ID = uuid.New()
	m.Record = entity.Record{
		Key: []byte("order-1"), Value: make([]byte, 1000), Size: 1000,
		Headers: []entity.Header{{Key: "traceparent", Value: []byte("00-a")}, {Key: "tenant", Value: []byte("acme")}},
	}
	out := entity.Outgoing{Message: m, Target: entity.Target{Topic: "orders", TopicID: "life-1"}}
	return []recordtest.Path{{Name: "Outgoing", Allocations: 10, Records: 1, Do: func() { r.record(&out, m.Record) }}}
}
