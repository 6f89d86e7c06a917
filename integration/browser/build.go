package browser

import (
	"fmt"
	"sync"
	"testing"

	"github.com/dlq-manager/dlq-manager/integration/programs"
)

// folder is the folder with the built programs. The first caller of built builds the programs. The folder is removed
// after the tests if TestMain uses Closing.
var folder struct {
	once sync.Once
	path string
	err  error
}

// built returns the folder with the programs api, ingester and archiver.
func built(t testing.TB) string {
	t.Helper()
	folder.once.Do(func() {
		folder.path, folder.err = programs.Build()
	})
	if folder.err != nil {
		t.Fatal(fmt.Errorf("a test needs the programs: %w", folder.err))
	}
	return folder.path
}
