// Package child runs child processes that, on Linux, end when their parent process ends, however the parent ends.
package child

import (
	"os/exec"
	"runtime"
	"syscall"
)

// Process is a started child.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// Start starts cmd in its own process group, so that a Ctrl-C at the terminal does not reach the child; the caller must
// stop it. On Linux, the kernel sends the signal onDeath to the child when the parent process ends in any way, even by
// SIGKILL. Other systems cannot do that.
func Start(cmd *exec.Cmd, onDeath syscall.Signal) (*Process, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	tie(cmd.SysProcAttr, onDeath)
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go p.keep(started)
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// keep starts the child and waits for it on one thread. Linux sends the death signal when the
// thread that created the child ends, not the process, so that thread must live as long as the
// child.
func (p *Process) keep(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	p.err = p.cmd.Wait()
	close(p.done)
}

// Done is closed when the child has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err returns how the child ended, nil for exit code 0. Call it only after Done is closed.
func (p *Process) Err() error { return p.err }

// Pid returns the child's process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Signal sends a signal. It does nothing if the child has already ended.
func (p *Process) Signal(sig syscall.Signal) { _ = p.cmd.Process.Signal(sig) }

// Pause stops the child with SIGSTOP and, on Linux, returns when all of its threads have stopped.
// It does nothing if the child has already ended.
func (p *Process) Pause() {
	p.Signal(syscall.SIGSTOP)
	awaitStopped(p.Pid())
}

// Path returns the program that the child runs.
func (p *Process) Path() string { return p.cmd.Path }
