package browser

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// TestTheLockLeavesTheRegistryOpen: the lock file names no registry, so that everyone who builds the console can use a
// registry of their own; checksums prove that the packages are equal.
func TestTheLockLeavesTheRegistryOpen(t *testing.T) {
	t.Parallel()
	lock, err := os.ReadFile(filepath.Join(repository(t.Fatalf), "pkg/console/web/package-lock.json"))
	check.NoError(t, err)
	if strings.Contains(string(lock), "://") {
		t.Error("package-lock.json names addresses, want it written with omit-lockfile-registry-resolved")
	}
	if got, want := strings.Count(string(lock), `"integrity"`), strings.Count(string(lock), `"node_modules/`); got != want {
		t.Errorf("%d packages have a checksum, want all %d", got, want)
	}
}
