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

// Program describes how to run the API, the ingester or the archiver.
type Program struct {
	Path   string   // path of a program that Build has made
	Config string   // path of a configuration file that Config.Write has written
	Env    []string // variables that are added to the environment of the calling process
	Dir    string   // the folder of its log
}

// Process is a running server program. On Linux, the program ends when the process that started it ends.
type Process struct {
	*child.Process
	Name string
	URL  string // address of the program, without a slash at the end
	Log  string // file with the whole output of the program
}

// Start starts a program on a free port; Ready waits until it serves.
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
	defer out.Close() // closes only this process's descriptor of the log; the child has its own
	cmd := exec.Command(p.Path, "--config", p.Config)
	cmd.Env = append(append(environ(), fmt.Sprintf("DLQ_SERVER_PORT=%d", port)), p.Env...)
	cmd.Stdout, cmd.Stderr = out, out
	process, err := child.Start(cmd, syscall.SIGKILL)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return &Process{Process: process, Name: name, URL: fmt.Sprintf("http://127.0.0.1:%d", port), Log: log}, nil
}

// environ returns this process's environment without the variables of its tests: the programs would
// log warnings about unknown variables.
func environ() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "DLQ_TEST_") || strings.HasPrefix(variable, "DLQ_SOAK_")
	})
}

// Ready waits until the program reports that it is ready. If the program ends instead, the error contains the end of
// its log.
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

// Kill sends SIGKILL and returns when the process has ended.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.Done()
}
