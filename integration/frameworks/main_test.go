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

var (
	binaries  string // folder of the programs that TestMain built
	consumers string // folder of the consumers that TestMain built
)

func TestMain(m *testing.M) {
	if err := build(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	stacktest.Main(runner{m})
}

func build() (err error) {
	if binaries, err = programs.Build(); err != nil {
		return err
	}
	if consumers, err = os.MkdirTemp("", "dlq-manager-frameworks-"); err != nil {
		return err
	}
	if out, err := exec.Command("go", "build", "-ldflags=-w", "-o", consumers, "./order", "./kafkago", "./watermill").CombinedOutput(); err != nil {
		return fmt.Errorf("build the consumers: %w\n%s", err, out)
	}
	return nil
}

// runner runs the tests, and then deletes the folder of the consumers.
type runner struct{ m *testing.M }

func (r runner) Run() int {
	code := r.m.Run()
	_ = os.RemoveAll(consumers)
	return code
}
