package stack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dlq-manager/dlq-manager/integration/child"
)

const (
	startPatience = 90 * time.Second // limit of a start; a busy machine with two cores needs many seconds
	stopPatience  = 30 * time.Second
	probePatience = 2 * time.Second
	probePause    = 25 * time.Millisecond
)

// errPortTaken means that the port of a server is in use.
var errPortTaken = errors.New("port is taken")

// server is a server process that can be stopped and restarted with the same port and data.
type server struct {
	command func() *exec.Cmd                // returns a new command for each start
	answers func(ctx context.Context) error // sends a request to the server; returns nil when the server answers it
	logFile string
	halt    syscall.Signal // stops the server at once, without saving anything
	proc    *child.Process // nil while stopped
}

// start returns when the server answers. It returns an error if the server is running already. After any other error,
// the server is not running.
func (s *server) start(ctx context.Context) error {
	if s.proc != nil {
		return errors.New("is running already")
	}
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	proc, err := startProcess(s.command(), s.logFile, s.halt)
	if err != nil {
		return err
	}
	s.proc = proc
	if err := s.awaitAnswer(ctx); err != nil {
		return errors.Join(err, s.kill())
	}
	return nil
}

// startAgain starts a stopped server on its own ports. It tries several times, because freePorts of another test may
// hold one of these ports for a moment.
func (s *server) startAgain(ctx context.Context) error {
	for try := 1; ; try++ {
		err := s.start(ctx)
		if try == 3 || !errors.Is(err, errPortTaken) {
			return err
		}
	}
}

func (s *server) awaitAnswer(ctx context.Context) error {
	pause := time.NewTicker(probePause)
	defer pause.Stop()
	for {
		last := s.probe(ctx)
		if last == nil {
			return nil
		}
		select {
		case <-s.proc.Done():
			return s.ended()
		case <-ctx.Done():
			return fmt.Errorf("no answer: %w: %w: %s", ctx.Err(), last, tail(s.logFile))
		case <-pause.C:
		}
	}
}

func (s *server) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probePatience)
	defer cancel()
	return s.answers(ctx)
}

// ended returns the error of a server that ended during its start.
func (s *server) ended() error {
	if s.portWasTaken() {
		return fmt.Errorf("%w: %s", errPortTaken, tail(s.logFile))
	}
	return fmt.Errorf("ended at once: %w: %s", s.proc.Err(), tail(s.logFile))
}

// portWasTaken reports whether the log contains the message that all these servers write when their port is in use.
func (s *server) portWasTaken() bool {
	text, err := os.ReadFile(s.logFile)
	return err == nil && bytes.Contains(bytes.ToLower(text), []byte("address already in use"))
}

// kill stops the server without giving it time to save anything. It does nothing for a nil or
// stopped server.
func (s *server) kill() error {
	if s == nil {
		return nil
	}
	return s.stop(s.halt)
}

// stop sends sig and waits for the end; it kills a server that ignores sig.
func (s *server) stop(sig syscall.Signal) error { return s.stopWithin(stopPatience, sig) }

// stopWithin does the same as stop, and waits for at most patience.
func (s *server) stopWithin(patience time.Duration, sig syscall.Signal) error {
	if s.proc == nil {
		return nil
	}
	proc := s.proc
	s.proc = nil
	proc.Signal(sig)
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	select {
	case <-proc.Done():
		return nil
	case <-timeout.C:
	}
	proc.Signal(syscall.SIGKILL)
	<-proc.Done()
	return fmt.Errorf("%s did not stop within %v and was killed", proc.Path(), patience)
}

// signal sends sig to a running server without waiting.
func (s *server) signal(sig syscall.Signal) error {
	if s.proc != nil {
		s.proc.Signal(sig)
	}
	return nil
}

// pause suspends a running server and waits until all of its threads have stopped.
func (s *server) pause() error {
	if s.proc != nil {
		s.proc.Pause()
	}
	return nil
}

// startOnFreePorts builds and starts one server as startAllOnFreePorts does.
func startOnFreePorts(ctx context.Context, n int, build func(ports []int) (*server, error)) (*server, error) {
	servers, err := startAllOnFreePorts(ctx, n, func(ports []int) ([]*server, error) {
		srv, err := build(ports)
		return []*server{srv}, err
	})
	if err != nil {
		return nil, err
	}
	return servers[0], nil
}

// startAllOnFreePorts builds and starts servers. If another process has taken one of the ports before its server could
// use it, startAllOnFreePorts tries again with other ports.
func startAllOnFreePorts(ctx context.Context, n int, build func(ports []int) ([]*server, error)) ([]*server, error) {
	var last error
	for range 5 {
		ports, err := freePorts(n)
		if err != nil {
			return nil, err
		}
		servers, err := build(ports)
		if err != nil {
			return nil, err
		}
		if last = startAll(ctx, servers); last == nil {
			return servers, nil
		}
		if !errors.Is(last, errPortTaken) {
			break
		}
	}
	return nil, last
}

// startAll starts servers that answer requests only when all of them run, such as the brokers of a cluster. If it
// returns an error, none of them is running.
func startAll(ctx context.Context, servers []*server) error {
	all, ctx := errgroup.WithContext(ctx)
	for _, srv := range servers {
		all.Go(func() error { return srv.start(ctx) })
	}
	err := all.Wait()
	if err == nil {
		return nil
	}
	for _, srv := range servers {
		err = errors.Join(err, srv.kill())
	}
	return err
}
