package stack

import (
	"context"
	"errors"
	"syscall"
)

// ErrNotOurs says that a server cannot be stopped or started here, because it
// was not started here: it existed before, or was not asked for.
var ErrNotOurs = errors.New("the server was not started by this stack")

// StopKafka lets the broker close its files and leave in order.
func (s *Stack) StopKafka() error {
	return s.withServer(&s.kafka, func(srv *server) error { return srv.stop(syscall.SIGTERM) })
}

// KillKafka ends the broker without a warning.
func (s *Stack) KillKafka() error { return s.withServer(&s.kafka, (*server).kill) }

// StartKafka starts a stopped or killed broker at the same address with the
// same data, and returns when it answers.
func (s *Stack) StartKafka(ctx context.Context) error {
	return s.withServer(&s.kafka, func(srv *server) error { return srv.start(ctx) })
}

// PauseKafka makes the broker stand still and returns once it does: its connections
// stay open, and nothing answers. A broker that has ended is left alone.
func (s *Stack) PauseKafka() error { return s.withServer(&s.kafka, (*server).pause) }

// ResumeKafka lets a paused broker go on where it was.
func (s *Stack) ResumeKafka() error {
	return s.withServer(&s.kafka, func(srv *server) error { return srv.signal(syscall.SIGCONT) })
}

// StopPostgres is the server's fast shutdown: it rolls back what is under way,
// tells its clients, and writes everything to its files.
func (s *Stack) StopPostgres() error {
	return s.withServer(&s.postgres, func(srv *server) error { return srv.stop(syscall.SIGINT) })
}

// KillPostgres ends the server at once, which it calls its immediate shutdown:
// connections break, nothing is flushed, and the next start recovers from the log.
func (s *Stack) KillPostgres() error { return s.withServer(&s.postgres, (*server).kill) }

// StartPostgres starts a stopped or killed server at the same address with the same data,
// and returns when it answers, which is after the recovery.
func (s *Stack) StartPostgres(ctx context.Context) error {
	return s.withServer(&s.postgres, func(srv *server) error { return srv.start(ctx) })
}

// withServer works on a server of this stack. Stopping a stopped server does
// nothing; starting a running one is an error.
func (s *Stack) withServer(which **server, work func(*server) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if *which == nil || s.stopped {
		return ErrNotOurs
	}
	return work(*which)
}
