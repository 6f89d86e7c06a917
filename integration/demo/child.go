package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// stopPatience is what the programs promise to stop within.
const stopPatience = 25 * time.Second

// program is how to run one of the programs.
type program struct {
	name string
	path string
	args []string
	env  []string // added to the environment
	log  string
}

// child is a running program that dies with this process.
type child struct {
	program
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // how it ended; to be read after done
}

// startChild starts a program with its output appended to its log.
func startChild(p program) (*child, error) {
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	c := &child{program: p, cmd: exec.Command(p.path, p.args...), done: make(chan struct{})}
	c.cmd.Stdout, c.cmd.Stderr = out, out
	c.cmd.Env = append(environ(os.Environ()), p.env...)
	// A group of its own keeps a Ctrl-C at the terminal away: who started the
	// program stops it, after the shop and before the servers.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(c.cmd.SysProcAttr)
	started := make(chan error, 1)
	go c.keep(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	return c, nil
}

// keep starts the program and waits for it on one thread. Linux kills a child
// when the thread that made it ends, so that thread must stay as long.
func (c *child) keep(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := c.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	c.err = c.cmd.Wait()
	close(c.done)
}

// environ leaves out what would change the settings of the programs: they get
// theirs from the file that the demo writes.
func environ(all []string) []string {
	var kept []string
	for _, entry := range all {
		if !strings.HasPrefix(entry, "DLQ_") {
			kept = append(kept, entry)
		}
	}
	return kept
}

// stop asks the program to end and waits. It is nil when the program ended well;
// a nil child was never started.
func (c *child) stop() error {
	if c == nil {
		return nil
	}
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // it may be gone already
	timeout := time.NewTimer(stopPatience)
	defer timeout.Stop()
	select {
	case <-c.done:
		return c.failure()
	case <-timeout.C:
	}
	_ = c.cmd.Process.Kill()
	<-c.done
	return fmt.Errorf("%s did not stop within %v and was killed", c.name, stopPatience)
}

// failure tells how a program that is done went wrong; nil when it did not.
func (c *child) failure() error {
	if c.err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w: %s", c.name, c.err, tail(c.log))
}

// ended explains a program that is done but should not be.
func (c *child) ended() error {
	if err := c.failure(); err != nil {
		return err
	}
	return fmt.Errorf("%s ended by itself: %s", c.name, tail(c.log))
}

// tail returns the last line of a log that has something in it.
func tail(log string) string {
	text, err := os.ReadFile(log)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	return all[len(all)-1]
}
