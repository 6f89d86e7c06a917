package errorgroups

import (
	"testing"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// TestCacheIsLimited: beyond its limit the cache forgets error groups, which are then stored again.
func TestCacheIsLimited(t *testing.T) {
	t.Parallel()
	var c Cache
	full := make([]uuid.UUID, maxFingerprints)
	for i := range full {
		full[i] = uuid.New()
	}
	found := map[Key]entity.Fingerprint{{"orders.dlq.v1", full[0]}: {}}
	check.Len(t, c.Unknown(found), 1, "unknown groups at first")
	c.Remember(full)
	check.Len(t, c.Unknown(found), 0, "unknown groups")
	c.Remember([]uuid.UUID{uuid.New()})
	check.Len(t, c.Unknown(found), 1, "unknown groups beyond the limit")
}
