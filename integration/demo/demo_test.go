package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	released "github.com/dlq-manager/dlq-manager/integration/programs"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// The tests of this file run the demo as a user does. Each test has its own servers, so the tests run one after the
// other.

func TestDemo(t *testing.T) {
	d := launch(t)
	d.awaitLine(guideEnd)

	commands := d.commands()
	wants := []string{
		`"dlq_topic":"orders.dlq.v1"`,
		`"original_topic":"payments.events.v1"`,
		`"error_class":"com.fasterxml.jackson.core.io.JsonEOFException"`,
		`{"order_id":"O-`,
		`"groups":[{"id":"`,
		`"class":"com.example.shop.catalogue.UnknownProductException"`,
		`is not in the catalogue"`,
		`"replay":{"possible":true`,
		`,orders.events.v1,`,
		`"message":"message retry initiated"`,
		`"selected":1`,
		`"payload_format":"avro"`,
		`"latest_version":2`,
		`"status":"SENT"`,
		`"patch_failed":0,"patch_complete":true`,
		`"action":"retry"`,
		`"selected":1`,
		`"message":"message retry initiated"`,
		`"to_status":"RESOLVED"`,
		`"sendable":`,
		`"state":"canary"`,
		`"redrives":[{`,
		`"action":"attempt"`,
		`"success":true`,
		`"status":"ready"`,
		`dlq_http_requests_total`,
		`dlq_ingest_`,
	}
	if len(commands) != len(wants) {
		t.Fatalf("the demo prints %d commands, want %d: each has to be tried here", len(commands), len(wants))
	}
	for i, want := range wants {
		if answer := d.shell(commands[i]); !strings.Contains(answer, want) {
			t.Errorf("%s\nanswers %s\nwant %s in it", commands[i], answer, want)
		}
	}

	for _, key := range d.acceptedKeys() {
		d.awaitLine("shop: orders-service accepted order " + key)
	}
	d.awaitLine("shop: payments-service accepted payment PM-")
	d.awaitLine("shop: shipments-service accepted shipment " + d.named(`"accepted shipment `)[0])
	d.awaitLine("shop: invoices-service accepted invoice " + d.named(`"accepted invoice `)[0])
	d.awaitLine("shop: orders-service dead-lettered order ")
	d.awaitReturn(commands[2])
	d.awaitFinished(commands[slices.Index(wants, `"redrives":[{`)])

	d.interrupt(syscall.SIGINT)
	d.awaitExit(0)
	d.awaitNothingLeft()
	if left := leftovers(t, d.dir); len(left) > 0 {
		t.Errorf("the demo left the files %v", left)
	}
}

func TestDemoStopsAfterItsTimeAndPicksAFreePort(t *testing.T) {
	taken, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	check.NoError(t, err)
	defer taken.Close()
	port := strconv.Itoa(taken.Addr().(*net.TCPAddr).Port)
	d := launch(t, "-for", "1s", "-port", port)
	d.awaitLine("port " + port + " is in use")
	d.awaitLine(guideEnd)
	d.awaitExit(0)
	d.awaitNothingLeft()
}

func TestDemoStopsWhileItStarts(t *testing.T) {
	d := launch(t)
	d.awaitLine("demo: migrating")
	d.interrupt(syscall.SIGTERM)
	d.awaitExit(0)
	d.awaitNothingLeft()
}

func TestKilledDemoLeavesNoProcess(t *testing.T) {
	d := launch(t)
	d.awaitLine(guideEnd)
	if running := processes(d.dir); len(running) < 4 {
		t.Fatalf("processes of the demo = %v, want the demo, two programs and the servers: the search is broken", running)
	}
	d.interrupt(syscall.SIGKILL)
	<-d.done
	d.awaitNothingLeft()
}

func TestDemoReportsAProgramThatEnds(t *testing.T) {
	d := launch(t)
	d.awaitLine(guideEnd)
	pid := d.processOf("dlq-manager-ingester")
	check.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	d.awaitLine("demo: ingester: signal: killed")
	d.awaitExit(exitFailed)
	d.awaitNothingLeft()
}

// running is a demo that a test has started as a process.
type running struct {
	t    *testing.T
	ctx  context.Context
	dir  string // temporary folder of the demo and its children
	cmd  *exec.Cmd
	done chan struct{}

	mu    sync.Mutex
	lines []string
	more  chan struct{} // with every line of output, this channel is closed and a new one is made
}

func launch(t *testing.T, args ...string) *running {
	t.Helper()
	bin := buildAll(t)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	d := &running{t: t, ctx: ctx, dir: openDir(t), done: make(chan struct{}), more: make(chan struct{})}
	d.cmd = exec.Command(filepath.Join(bin, "demo"), append([]string{"-bin", bin, "-port", "0"}, args...)...)
	d.cmd.Env = append(os.Environ(), "TMPDIR="+d.dir)
	out, err := d.cmd.StdoutPipe()
	check.NoError(t, err)
	d.cmd.Stderr = d.cmd.Stdout
	check.NoError(t, d.cmd.Start())
	go d.follow(bufio.NewScanner(out))
	t.Cleanup(func() { _ = d.cmd.Process.Kill(); <-d.done })
	return d
}

// follow collects the output and waits for the end of the demo.
func (d *running) follow(out *bufio.Scanner) {
	for out.Scan() {
		d.mu.Lock()
		d.lines = append(d.lines, out.Text())
		close(d.more)
		d.more = make(chan struct{})
		d.mu.Unlock()
	}
	_ = d.cmd.Wait() // ProcessState shows how the demo ended
	close(d.done)
}

// output returns all lines so far, and a channel that is closed when more lines arrive.
func (d *running) output() ([]string, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lines[:len(d.lines):len(d.lines)], d.more
}

func (d *running) awaitLine(text string) {
	d.t.Helper()
	for {
		lines, more := d.output()
		for _, line := range lines {
			if strings.Contains(line, text) {
				return
			}
		}
		select {
		case <-more:
		case <-d.done:
			if now, _ := d.output(); len(now) == len(lines) {
				d.t.Fatalf("the demo ended without %q; it said\n%s", text, strings.Join(lines, "\n"))
			}
		case <-d.ctx.Done():
			d.t.Fatalf("no line with %q in time; the demo said\n%s", text, strings.Join(lines, "\n"))
		}
	}
}

// commands returns the lines of the guide that a user can copy into a shell.
func (d *running) commands() []string {
	var commands []string
	lines, _ := d.output()
	for _, line := range lines {
		if strings.HasPrefix(line, commandIndent) {
			commands = append(commands, strings.TrimSpace(line))
		}
	}
	return commands
}

// acceptedKeys returns the keys of those orders that the shop will accept when they are republished, as the guide says.
func (d *running) acceptedKeys() []string {
	d.t.Helper()
	keys := d.named(`"accepted order `)
	check.Require(d.t, len(keys) == 2, "the demo names the orders %v, want one whose cause has ended and one that is changed", keys)
	return keys
}

// named searches the guide for a text, and returns the characters that follow each occurrence, up to the next quotation
// mark.
func (d *running) named(after string) (names []string) {
	d.t.Helper()
	lines, _ := d.output()
	for _, line := range lines {
		if _, rest, ok := strings.Cut(line, after); ok {
			name, _, _ := strings.Cut(rest, `"`)
			names = append(names, name)
		}
	}
	check.Require(d.t, len(names) > 0, "the guide has no %s", after)
	return names
}

func (d *running) shell(command string) string {
	d.t.Helper()
	out, err := exec.CommandContext(d.ctx, "/bin/sh", "-c", command).CombinedOutput()
	check.True(d.t, err == nil, "%s: %v", command, err)
	return string(out)
}

// awaitReturn runs the shell command show, which prints a message, and waits until a return of this message is stored.
func (d *running) awaitReturn(show string) {
	d.t.Helper()
	var parent struct {
		ID string `json:"id"`
	}
	check.NoError(d.t, json.Unmarshal([]byte(d.shell(show)), &parent))
	list := strings.Replace(d.commands()[0], "page_size=3", "page_size=100", 1)
	d.await("the broken order among the dead letters again", func() bool {
		return strings.Contains(d.shell(list), `"parent_id":"`+parent.ID+`"`)
	})
}

// awaitFinished waits until the redrive has finished and its canary was consumed.
func (d *running) awaitFinished(show string) {
	d.t.Helper()
	var answer string
	defer func() {
		if d.t.Failed() {
			d.t.Logf("the redrives: %s", answer)
		}
	}()
	d.await("a finished redrive whose canary was consumed", func() bool {
		answer = d.shell(show)
		return strings.Contains(answer, `"state":"finished"`) && strings.Contains(answer, "messages were consumed, none failed again")
	})
}

func (d *running) interrupt(sig syscall.Signal) {
	d.t.Helper()
	check.NoError(d.t, d.cmd.Process.Signal(sig))
}

func (d *running) awaitExit(code int) {
	d.t.Helper()
	select {
	case <-d.done:
	case <-d.ctx.Done():
		d.t.Fatal("the demo does not end")
	}
	if got := d.cmd.ProcessState.ExitCode(); got != code {
		lines, _ := d.output()
		d.t.Errorf("exit code %d, want %d; it said\n%s", got, code, strings.Join(lines, "\n"))
	}
}

func (d *running) awaitNothingLeft() {
	d.t.Helper()
	d.await("the end of every process of the demo", func() bool { return len(processes(d.dir)) == 0 })
}

func (d *running) processOf(program string) int {
	d.t.Helper()
	for pid, command := range processes(d.dir) {
		if strings.Contains(command, program) {
			return pid
		}
	}
	d.t.Fatalf("%s does not run", program)
	return 0
}

func (d *running) await(what string, condition func() bool) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			d.t.Fatalf("not seen in time: %s", what)
		}
	}
}

// processes returns the command lines of all processes with a folder in their arguments or
// environment, or as their working folder.
func processes(dir string) map[int]string {
	found := map[int]string{}
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, proc := range all {
		pid, err := strconv.Atoi(filepath.Base(proc))
		if err != nil || pid == os.Getpid() {
			continue
		}
		command, _ := os.ReadFile(filepath.Join(proc, "cmdline"))
		environ, _ := os.ReadFile(filepath.Join(proc, "environ"))
		where, _ := os.Readlink(filepath.Join(proc, "cwd"))
		if strings.Contains(string(command)+"\n"+string(environ)+"\n"+where, dir) {
			found[pid] = string(bytes.ReplaceAll(command, []byte{0}, []byte(" ")))
		}
	}
	return found
}

// leftovers returns the files that remain below dir, except the lock file that all processes use to start servers.
func leftovers(t *testing.T, dir string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && entry.Name() != "lock" {
			files = append(files, path)
		}
		return err
	})
	check.NoError(t, err)
	return files
}

// openDir returns a temporary folder that every user can enter. PostgreSQL may run as another user, for whom the test's
// own temporary folder may be closed.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "demo-test-")
	check.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	check.NoError(t, os.Chmod(dir, 0o755))
	return dir
}

// programs is the folder of the built programs, which the first caller builds. It is a package variable, because all
// tests use the same build.
var programs struct {
	once sync.Once
	dir  string
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	os.RemoveAll(programs.dir)
	os.Exit(code)
}

// buildAll builds the demo and the programs that it runs.
func buildAll(t *testing.T) string {
	t.Helper()
	programs.once.Do(func() {
		if programs.dir, programs.err = os.MkdirTemp("", "demo-test-bin-"); programs.err != nil {
			return
		}
		out, err := exec.Command("go", "build", "-ldflags=-w", "-o", filepath.Join(programs.dir, "demo"), ".").CombinedOutput()
		if err != nil {
			programs.err = fmt.Errorf("build the demo: %w: %s", err, out)
			return
		}
		built, err := released.Build()
		if err != nil {
			programs.err = err
			return
		}
		for _, name := range []string{"api", "ingester"} {
			programs.err = errors.Join(programs.err, os.Symlink(filepath.Join(built, name), filepath.Join(programs.dir, "dlq-manager-"+name)))
		}
	})
	if programs.err != nil {
		t.Fatal(programs.err)
	}
	return programs.dir
}
