// Package integration_test runs the programs as they are shipped, as processes,
// against a real Kafka and a real PostgreSQL, and breaks things under them.
package integration_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
)

// binaries is where TestMain built the programs.
var binaries string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "dlq-manager-programs-")
	if err == nil {
		err = build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "build the programs:", err)
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

func build(dir string) error {
	for _, name := range []string{"api", "ingester", "archiver"} {
		cmd := exec.Command("go", "build", "-o", filepath.Join(dir, name), "../cmd/"+name)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", name, err, out)
		}
	}
	return nil
}
