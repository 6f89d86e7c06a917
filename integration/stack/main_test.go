package stack

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// starterVariable makes the test binary start servers in place of running tests, so that a test can kill a process that
// has started servers.
const starterVariable = "DLQ_STACK_TEST_STARTER_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(starterVariable); dir != "" {
		beStarter(dir)
		return
	}
	os.Exit(m.Run())
}

// beStarter starts Kafka and PostgreSQL, prints the addresses of the two servers, and waits until a test kills this
// process.
func beStarter(dir string) {
	s, err := Start(context.Background(), Options{Postgres: true, Kafka: true, Fast: true, Own: true, Dir: dir})
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	fmt.Println(s.DatabaseURL())
	fmt.Println(s.Brokers()[0])
	select {}
}

// start returns a stack that ends with the test.
func start(t *testing.T, opts Options) *Stack {
	t.Helper()
	opts.Fast, opts.Own = true, true
	s, err := Start(patient(t), opts)
	check.NoError(t, err)
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Errorf("Stop: %v", err)
		}
	})
	return s
}

// patient limits the waits of a test, including the download of the artefacts.
func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// openDir returns a temporary folder that every user can enter. PostgreSQL may run as another user, for whom the test's
// own temporary folder may be closed.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "stack-test-")
	check.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	check.NoError(t, os.Chmod(dir, 0o755))
	return dir
}

// variables returns a replacement of os.Getenv: it reads the environment of the process, with some variables
// replaced.
func variables(replaced map[string]string) func(string) string {
	return func(name string) string {
		if value, ok := replaced[name]; ok {
			return value
		}
		return os.Getenv(name)
	}
}

// await waits until the condition is true.
func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for !condition() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: not seen in time", what)
		}
	}
}

// runFolders returns the existing data folders below dir.
func runFolders(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	check.NoError(t, err)
	var found []string
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), runPrefix) {
			found = append(found, entry.Name())
		}
	}
	return found
}
