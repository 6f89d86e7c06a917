package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/dlq-manager/dlq-manager/integration/child"
)

const (
	readyPatience = 30 * time.Second
	stopPatience  = 25 * time.Second // what the programs promise
)

// build compiles programs into a folder, as a release does.
func build(ctx context.Context, folder string, programs ...string) error {
	for _, name := range programs {
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w",
			"-o", filepath.Join(folder, name), "github.com/dlq-manager/dlq-manager/cmd/"+name)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", name, err, out)
		}
	}
	return nil
}

// runtimeSettings are what changes how much memory and how many processors a
// program in Go takes.
var runtimeSettings = []string{"GOGC", "GOMEMLIMIT", "GOMAXPROCS", "GODEBUG"}

// program is how to run one of the programs.
type program struct {
	name, path, config, log string
	settings                []string // in place of defaults, such as DLQ_REDRIVE_WORKERS=0
	flags                   []string
}

func (p program) with(settings ...string) program {
	p.settings = settings
	return p
}

func (p program) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.path, slices.Concat([]string{"--config", p.config}, p.flags, args)...)
	cmd.Env = append(environ(os.Environ()), p.settings...)
	return cmd
}

// environ leaves out what would change the programs' settings, or those of Go's
// runtime in them.
func environ(all []string) []string {
	var kept []string
	for _, entry := range all {
		name, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, "DLQ_") && !slices.Contains(runtimeSettings, name) {
			kept = append(kept, entry)
		}
	}
	return kept
}

// complete runs the program to its end, which must be a good one.
func (p program) complete(ctx context.Context, args ...string) error {
	if out, err := p.command(ctx, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w\n%s", p.name, args, err, out)
	}
	return nil
}

// running is a program that serves.
type running struct {
	program
	*child.Process
	url string
}

// serve starts the program and waits until it is ready.
func (p program) serve(ctx context.Context) (*running, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	out, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }()
	cmd := p.command(context.WithoutCancel(ctx))
	cmd.Env = append(cmd.Env, "DLQ_SERVER_PORT="+strconv.Itoa(port))
	cmd.Stdout, cmd.Stderr = out, out
	process, err := child.Start(cmd, syscall.SIGKILL)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	r := &running{program: p, Process: process, url: "http://127.0.0.1:" + strconv.Itoa(port)}
	if err := r.awaitReady(ctx); err != nil {
		r.kill()
		return nil, err
	}
	return r, nil
}

func (r *running) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyPatience)
	defer cancel()
	err := poll(ctx, 10*time.Millisecond, func() (bool, error) {
		if err := r.alive(); err != nil {
			return false, err
		}
		status, err := r.status(ctx, http.MethodGet, "/readyz")
		return err == nil && status == http.StatusOK, nil // nobody listens at first
	})
	if err != nil {
		return fmt.Errorf("%s does not become ready: %w", r.name, err)
	}
	return nil
}

// alive explains an end that nobody asked for.
func (r *running) alive() error {
	select {
	case <-r.Done():
		return fmt.Errorf("%s ended by itself: %w: see %s", r.name, r.Err(), r.log)
	default:
		return nil
	}
}

func (r *running) status(ctx context.Context, method, path string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, method, r.url+path, nil)
	if err != nil {
		return 0, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	return res.StatusCode, res.Body.Close()
}

// stop asks the program to end and waits; it must end well.
func (r *running) stop() error {
	r.Signal(syscall.SIGTERM)
	timeout := time.NewTimer(stopPatience)
	defer timeout.Stop()
	select {
	case <-r.Done():
		if r.Err() != nil {
			return fmt.Errorf("%s: %w: see %s", r.name, r.Err(), r.log)
		}
		return nil
	case <-timeout.C:
		r.kill()
		return fmt.Errorf("%s did not stop within %s and was killed", r.name, stopPatience)
	}
}

func (r *running) kill() {
	r.Signal(syscall.SIGKILL)
	<-r.Done()
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// poll asks every now and then until ok is true, which must be before ctx ends.
func poll(ctx context.Context, every time.Duration, ok func() (bool, error)) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		done, err := ok()
		if err != nil || done {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}
