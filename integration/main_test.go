// Package integration_test runs the API, the ingester and the archiver as processes, with a real Kafka and a real
// PostgreSQL, and injects faults.
package integration_test

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
	// With four at a time beside the tests of other packages, each took longer, and its servers used processor time for
	// longer.
	stacktest.Parallel(3)
	dir, err := programs.Build()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binaries = dir
	stacktest.Main(m)
}
