// Package frameworks_test runs the consumers of docs/getting-started.md, which are real consumers of the frameworks that
// the page names: their dead letters are stored, and their replays are consumed.
package frameworks_test

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/dlq-manager/dlq-manager/integration/programs"
	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
)

// binaries is the folder with the programs that TestMain built.
var binaries string

func TestMain(m *testing.M) {
	dir, err := build()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binaries = dir
	stacktest.Main(runner{m, dir})
}

func build() (string, error) {
	dir, err := os.MkdirTemp("", "dlq-manager-frameworks-")
	if err != nil {
		return "", err
	}
	if err := programs.Build(dir, "api", "ingester"); err != nil {
		return "", err
	}
	if out, err := exec.Command("go", "build", "-ldflags=-w", "-o", dir, "./order", "./kafkago", "./watermill").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the consumers: %w\n%s", err, out)
	}
	return dir, nil
}

// runner runs the tests, and then deletes the folder with the binaries that build made.
type runner struct {
	m   *testing.M
	dir string
}

func (r runner) Run() int {
	code := r.m.Run()
	_ = os.RemoveAll(r.dir)
	return code
}
