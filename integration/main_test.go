// Package integration_test runs the API, the ingester and the archiver as processes, with a real Kafka and a real
// PostgreSQL, and injects faults.
package integration_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/dlq-manager/dlq-manager/integration/programs"
	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
)

// binaries is the folder with the programs that TestMain built.
var binaries string

// parallel is the number of tests that run at the same time unless -parallel says otherwise. Most of them
// wait for servers. With four at a time beside the tests of other packages, each took longer, and its servers used
// processor time for longer.
const parallel = "3"

func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", parallel)
	}
	dir, err := programs.Build()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binaries = dir
	stacktest.Main(m)
}
