package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// The exit code of shells for a command that cannot be run.
const exitNoCommand = 127

// runCommand runs a command with additional environment variables, and forwards signals to it. It returns the command's
// exit code, or 128 plus the number of the signal that ended the command.
func runCommand(command, env []string, signals <-chan os.Signal, stdout, stderr io.Writer) int {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, stdout, stderr
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(stderr, "stack:", err)
		return exitNoCommand
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = cmd.Wait() // ProcessState has the result
	}()
	for {
		select {
		case sig := <-signals:
			forward(sig, cmd.Process)
		case <-done:
			return exitCode(cmd.ProcessState)
		}
	}
}

// forward forwards a signal to the command. It does not forward a Ctrl-C at the terminal, because the terminal sends
// the signal to every process in the foreground, also to the command.
func forward(sig os.Signal, to *os.Process) {
	if sig == os.Interrupt && inForeground() {
		return
	}
	_ = to.Signal(sig) // the error, for a command that has ended already, does not matter
}

// inForeground reports whether this process is in the terminal's foreground, where it gets the signals of keys such as
// Ctrl-C.
func inForeground() bool {
	group, err := unix.IoctlGetInt(int(os.Stdin.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

func exitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}
