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

// runner runs the tests, and then removes the folder with the programs that TestMain built.
type runner struct {
	m   *testing.M
	dir string
}

func (r runner) Run() int {
	code := r.m.Run()
	_ = os.RemoveAll(r.dir)
	return code
}
