package stack

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
)

// process is a child that dies with this process.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the child is gone
	err  error         // how it ended; to be read after done
}

// startProcess starts cmd with its output appended to logFile. The child gets
// the signal onDeath when this process ends in any way, SIGKILL included, where
// the system can do that (see tieToStarter).
func startProcess(cmd *exec.Cmd, logFile string, onDeath syscall.Signal) (*process, error) {
	out, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	prepare(cmd, onDeath)

	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go p.keep(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// keep starts the child and waits for it on one thread. Linux sends the death
// signal when the thread that made the child ends, not the process, so that
// thread must live as long as the child does.
func (p *process) keep(started chan<- error) {
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

// prepare puts the child into a process group of its own, out of reach of a
// Ctrl-C at the terminal: who started the servers stops them when done.
func prepare(cmd *exec.Cmd, onDeath syscall.Signal) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	tieToStarter(cmd.SysProcAttr, onDeath)
}

func (p *process) signal(sig syscall.Signal) { _ = p.cmd.Process.Signal(sig) }

// run starts cmd and waits until it is done. A failure carries the end of its
// output.
func run(ctx context.Context, cmd *exec.Cmd, logFile string) error {
	p, err := startProcess(cmd, logFile, syscall.SIGKILL)
	if err != nil {
		return err
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		p.signal(syscall.SIGKILL)
		<-p.done
		return fmt.Errorf("%s: %w", cmd.Args[0], ctx.Err())
	}
	if p.err != nil {
		return fmt.Errorf("%s: %w: %s", cmd.Args[0], p.err, tail(logFile))
	}
	return nil
}

// tail returns the last lines of a log, enough to see why a server gave up.
func tail(logFile string) string {
	text, err := os.ReadFile(logFile)
	if err != nil {
		return err.Error()
	}
	const keep = 2000
	if len(text) > keep {
		text = text[len(text)-keep:]
	}
	return strings.TrimSpace(string(text))
}

// oneLine folds text into one line of a readable length.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	const longest = 300
	if len(text) > longest {
		text = text[:longest] + " ..."
	}
	return text
}
