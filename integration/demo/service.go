package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/dlq-manager/dlq-manager/integration/child"
)

// stopPatience is the time in which the programs promise to stop. A program that takes longer is killed.
const stopPatience = 25 * time.Second

// program describes how to run one of the programs.
type program struct {
	name string
	path string
	args []string
	env  []string // added to the environment
	log  string
}

// service is a program that is killed, on Linux, when this process ends.
type service struct {
	program
	*child.Process
}

// startService starts a program, whose output is appended to its log.
func startService(p program) (*service, error) {
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := exec.Command(p.path, p.args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = append(environ(os.Environ()), p.env...)
	// The signal is SIGKILL, because an orderly stop of the program would be useless: when this process dies,
	// PostgreSQL and Kafka die with it.
	process, err := child.Start(cmd, syscall.SIGKILL)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	return &service{program: p, Process: process}, nil
}

// environ returns the environment without the variables that would change the settings of the programs: only the demo's
// configuration file may set them.
func environ(all []string) []string {
	var kept []string
	for _, entry := range all {
		if !strings.HasPrefix(entry, "DLQ_") {
			kept = append(kept, entry)
		}
	}
	return kept
}

// stop stops the program with SIGTERM and waits. It returns nil after exit code 0, and accepts a
// nil service.
func (c *service) stop() error {
	if c == nil {
		return nil
	}
	c.Signal(syscall.SIGTERM)
	timeout := time.NewTimer(stopPatience)
	defer timeout.Stop()
	select {
	case <-c.Done():
		return c.failure()
	case <-timeout.C:
	}
	c.Signal(syscall.SIGKILL)
	<-c.Done()
	return fmt.Errorf("%s did not stop within %v and was killed", c.name, stopPatience)
}

// failure returns the error with which an ended program failed; nil if it did not fail.
func (c *service) failure() error {
	if c.Err() == nil {
		return nil
	}
	return fmt.Errorf("%s: %w: %s", c.name, c.Err(), tail(c.log))
}

// ended returns an error for a program that has ended although the demo still needs it.
func (c *service) ended() error {
	if err := c.failure(); err != nil {
		return err
	}
	return fmt.Errorf("%s ended by itself: %s", c.name, tail(c.log))
}

// tail returns the last line of a log that is not empty.
func tail(log string) string {
	text, err := os.ReadFile(log)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	return all[len(all)-1]
}
