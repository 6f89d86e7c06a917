// Package child runs programs that die with the process that started them,
// however that ends.
package child

import (
	"os/exec"
	"runtime"
	"syscall"
)

// Process is a child that was started.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// Start starts cmd in a process group of its own, out of reach of a Ctrl-C at
// the terminal: who started it stops it when it is time. The child gets the
// signal onDeath when this process ends in any way, SIGKILL included; outside of
// Linux there is no such signal.
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

// keep starts the child and waits for it on one thread. Linux sends the death
// signal when the thread that made the child ends, not the process, so that
// thread must live as long as the child does.
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

// Err says how the child ended, nil when well. It may be read once Done is
// closed.
func (p *Process) Err() error { return p.err }

// Pid is the child's process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Signal sends a signal; a child that is gone already does not mind.
func (p *Process) Signal(sig syscall.Signal) { _ = p.cmd.Process.Signal(sig) }

// Pause stops the child and, on Linux, returns when all of its threads stand still. A
// child that is gone already does not mind.
func (p *Process) Pause() {
	p.Signal(syscall.SIGSTOP)
	awaitStopped(p.Pid())
}

// Path is the program that the child runs.
func (p *Process) Path() string { return p.cmd.Path }
