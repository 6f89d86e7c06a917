package browser

import (
	"sync"
	"testing"

	"github.com/dlq-manager/dlq-manager/integration/programs"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

var build = sync.OnceValues(programs.Build)

// built returns the folder with the programs api, ingester and archiver. The first caller builds them.
func built(t testing.TB) string {
	t.Helper()
	dir, err := build()
	check.NoError(t, err)
	return dir
}
