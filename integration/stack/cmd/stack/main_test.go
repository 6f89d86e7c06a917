package main

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/dlq-manager/dlq-manager/integration/stack"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// existing sets the environment variables that name existing servers, so that the program stack starts no servers in
// this test.
func existing(t *testing.T) {
	t.Helper()
	t.Setenv(stack.DatabaseURLVariable, "postgres://there/db")
	t.Setenv(stack.BrokersVariable, "there:9092")
}

func TestCommand(t *testing.T) {
	existing(t)
	for name, c := range map[string]struct {
		args    []string
		code    int
		out     string
		problem string
	}{
		"SeesTheServers":     {[]string{"--", "sh", "-c", "echo $DLQ_STACK_DATABASE_URL $DLQ_STACK_KAFKA_BROKERS"}, 0, "postgres://there/db there:9092\n", ""},
		"NeedsNoDashes":      {[]string{"-fast", "echo", "-n", "x"}, 0, "x", ""},
		"PassesItsExitCode":  {[]string{"--", "sh", "-c", "exit 7"}, 7, "", ""},
		"PassesItsSignal":    {[]string{"--", "sh", "-c", "kill -KILL $$"}, 137, "", ""},
		"ThatIsMissingIs127": {[]string{"--", "no-such-program"}, 127, "", "no-such-program"},
		"IsNotRunOnABadFlag": {[]string{"-no-such-flag"}, 2, "", "no-such-flag"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := run(c.args, &stdout, &stderr); code != c.code {
				t.Errorf("run(%q) = %d, want %d; it said %q", c.args, code, c.code, stderr.String())
			}
			if stdout.String() != c.out {
				t.Errorf("run(%q) printed %q, want %q", c.args, stdout.String(), c.out)
			}
			if !strings.Contains(stderr.String(), c.problem) {
				t.Errorf("run(%q) said %q, want %q in it", c.args, stderr.String(), c.problem)
			}
		})
	}
}

func TestSignalsReachTheCommand(t *testing.T) {
	existing(t)
	// The command sends SIGTERM to stack. It does so only after its trap is set, so that it can handle the signal that
	// stack forwards to it.
	const script = `trap 'echo got it; exit 3' TERM; kill -TERM "$STACK_PID"; while :; do read -r _ || sleep 0.05; done`
	t.Setenv("STACK_PID", strconv.Itoa(os.Getpid()))
	var stdout, stderr bytes.Buffer
	if code := run([]string{"--", "sh", "-c", script}, &stdout, &stderr); code != 3 || stdout.String() != "got it\n" {
		t.Errorf("run = %d, printed %q, want 3 and %q", code, stdout.String(), "got it\n")
	}
}

func TestWithoutCommandTheServersArePrinted(t *testing.T) {
	existing(t)
	signals := make(chan os.Signal, 1)
	signals <- syscall.SIGTERM
	opts, command, err := parse(nil, os.Stderr)
	check.NoError(t, err)
	servers, err := stack.Start(t.Context(), opts)
	check.NoError(t, err)
	var stdout, stderr bytes.Buffer
	if code := serve(servers, command, signals, &stdout, &stderr); code != 0 {
		t.Errorf("serve = %d, want 0", code)
	}
	want := "DLQ_STACK_DATABASE_URL=postgres://there/db\nDLQ_STACK_KAFKA_BROKERS=there:9092\n"
	if stdout.String() != want {
		t.Errorf("serve printed %q, want %q", stdout.String(), want)
	}
}
