package consumergroups

import (
	"testing"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

func TestCache_ForgetsWhenThereAreTooMany(t *testing.T) {
	t.Parallel()
	var g Cache
	for n := range maxSaved + 10 {
		g.Remember([]repository.TopicGroup{{Topic: "orders", Group: uuid.NewString()}})
		check.Require(t, len(g.saved) <= maxSaved, "%d groups are remembered after %d, want at most %d", len(g.saved), n, maxSaved)
	}
}
