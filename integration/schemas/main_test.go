// Package schemas_test runs dlq-manager with a schema registry, and compares it with the registry's official clients.
package schemas_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/dlq-manager/dlq-manager/integration/programs"
	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
)

// binaries is the folder with the programs that TestMain built.
var binaries string

func TestMain(m *testing.M) {
	dir, err := programs.Build()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binaries = dir
	stacktest.Main(m)
}
