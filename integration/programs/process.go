package programs

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/dlq-manager/dlq-manager/integration/child"
)

// Program is how to run one of the programs.
type Program struct {
	Path   string   // of what Build made
	Config string   // of the file that Config.Write made
	Env    []string // added to this process's environment
	Dir    string   // where its log goes
}

// Process is a program that serves. It dies with the process that started it.
type Process struct {
	*child.Process
	Name string
	URL  string // where it listens, without a slash at the end
	Log  string // file that everything it printed is in
}

// Start starts a program on a free port; Ready tells when it serves.
func Start(p Program) (*Process, error) {
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	name := filepath.Base(p.Path)
	log := filepath.Join(p.Dir, fmt.Sprintf("%s-%d.log", name, port))
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer out.Close() // the child has its own
	cmd := exec.Command(p.Path, "--config", p.Config)
	cmd.Env = append(append(environ(), fmt.Sprintf("DLQ_SERVER_PORT=%d", port)), p.Env...)
	cmd.Stdout, cmd.Stderr = out, out
	process, err := child.Start(cmd, syscall.SIGKILL)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return &Process{Process: process, Name: name, URL: fmt.Sprintf("http://127.0.0.1:%d", port), Log: log}, nil
}

// environ is this process's environment without what is meant for its tests: the
// programs would warn of variables that they do not know.
func environ() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "DLQ_TEST_") || strings.HasPrefix(variable, "DLQ_SOAK_")
	})
}

// Ready waits until the program says that it is ready. A program that ended
// instead is an error with the end of its log.
func (p *Process) Ready(ctx context.Context) error {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for !p.isReady(ctx) {
		select {
		case <-p.Done():
			return fmt.Errorf("%s ended instead of becoming ready:\n%s", p.Name, Tail(p.Log))
		case <-ctx.Done():
			return fmt.Errorf("%s did not become ready: %w\n%s", p.Name, ctx.Err(), Tail(p.Log))
		case <-ticker.C:
		}
	}
	return nil
}

func (p *Process) isReady(ctx context.Context) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL+"/readyz", nil)
	if err != nil {
		return false
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// Kill is SIGKILL: no goodbye to anybody. It returns when the process is gone.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.Done()
}
