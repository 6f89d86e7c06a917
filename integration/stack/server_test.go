package stack

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestServerThatEndsIsExplained(t *testing.T) {
	t.Parallel()
	srv := crashing(filepath.Join(t.TempDir(), "log"), "disk full")
	err := srv.start(patient(t))
	if err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("start = %v, want the server's last words", err)
	}
	if errors.Is(err, errPortTaken) {
		t.Errorf("start = %v, which is not about a port", err)
	}
}

// crashing is a server that says something and ends.
func crashing(logFile, words string) *server {
	return &server{
		command: func() *exec.Cmd { return exec.Command("sh", "-c", "echo '"+words+"' >&2; exit 1") },
		answers: func(context.Context) error { return errors.New("not there") },
		logFile: logFile,
		halt:    syscall.SIGKILL,
	}
}
