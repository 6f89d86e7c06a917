package stack

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/dlq-manager/dlq-manager/integration/child"
)

// startProcess starts cmd as a child of this process and appends its output to logFile.
func startProcess(cmd *exec.Cmd, logFile string, onDeath syscall.Signal) (*child.Process, error) {
	out, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	p, err := child.Start(cmd, onDeath)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// run starts cmd and waits for its end. If cmd fails by itself, the error includes the end of its output.
func run(ctx context.Context, cmd *exec.Cmd, logFile string) error {
	p, err := startProcess(cmd, logFile, syscall.SIGKILL)
	if err != nil {
		return err
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		p.Signal(syscall.SIGKILL)
		<-p.Done()
		return fmt.Errorf("%s: %w", cmd.Args[0], ctx.Err())
	}
	if p.Err() != nil {
		return fmt.Errorf("%s: %w: %s", cmd.Args[0], p.Err(), tail(logFile))
	}
	return nil
}

// tail returns the last lines of a log, enough to see why a server failed.
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

// oneLine puts text on one line of a readable length.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	const longest = 300
	if len(text) > longest {
		text = text[:longest] + " ..."
	}
	return text
}
