// Package integration_test runs the programs as they are shipped, as processes,
// against a real Kafka and a real PostgreSQL, and breaks things under them.
package integration_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/dlq-manager/dlq-manager/integration/programs"
	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
)

// binaries is where TestMain built the programs.
var binaries string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "dlq-manager-programs-")
	if err == nil {
		err = programs.Build(dir, "api", "ingester", "archiver")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binaries = dir
	stacktest.Main(runner{m, dir})
}

// runner removes the programs when the tests are over.
type runner struct {
	m   *testing.M
	dir string
}

func (r runner) Run() int {
	code := r.m.Run()
	_ = os.RemoveAll(r.dir)
	return code
}
