package stack

import (
	"context"
	"errors"
	"syscall"
)

// ErrNotOurs is the error of stopping or starting a server that this stack did not start: it
// existed before, or was not requested.
var ErrNotOurs = errors.New("the server was not started by this stack")

// StopKafka stops the broker cleanly: it closes its files and leaves the cluster.
func (s *Stack) StopKafka() error {
	return s.withServer(&s.kafka, func(srv *server) error { return srv.stop(syscall.SIGTERM) })
}

// KillKafka kills the broker.
func (s *Stack) KillKafka() error { return s.withServer(&s.kafka, (*server).kill) }

// StartKafka starts a stopped or killed broker at the same address with the same data, and returns
// when it answers.
func (s *Stack) StartKafka(ctx context.Context) error {
	return s.withServer(&s.kafka, func(srv *server) error { return srv.start(ctx) })
}

// PauseKafka suspends the broker and returns when it is suspended: its connections stay open
// without answers. It does nothing if the broker has ended.
func (s *Stack) PauseKafka() error { return s.withServer(&s.kafka, (*server).pause) }

// ResumeKafka resumes a paused broker.
func (s *Stack) ResumeKafka() error {
	return s.withServer(&s.kafka, func(srv *server) error { return srv.signal(syscall.SIGCONT) })
}

// StopPostgres performs the server's fast shutdown: it rolls back running transactions, notifies
// its clients, and writes everything to its files.
func (s *Stack) StopPostgres() error {
	return s.withServer(&s.postgres, func(srv *server) error { return srv.stop(syscall.SIGINT) })
}

// KillPostgres performs the server's immediate shutdown: connections break, nothing is flushed, and
// the next start recovers from the write-ahead log.
func (s *Stack) KillPostgres() error { return s.withServer(&s.postgres, (*server).kill) }

// StartPostgres starts a stopped or killed server at the same address with the same data, and
// returns when it answers, after the recovery.
func (s *Stack) StartPostgres(ctx context.Context) error {
	return s.withServer(&s.postgres, func(srv *server) error { return srv.start(ctx) })
}

// KillStandby and StartStandby do the same with the standby.
func (s *Stack) KillStandby() error { return s.withServer(&s.standby, (*server).kill) }

// StartStandby starts a killed standby, which then receives what it missed.
func (s *Stack) StartStandby(ctx context.Context) error {
	return s.withServer(&s.standby, func(srv *server) error { return srv.start(ctx) })
}

// withServer calls work with a server of this stack. Stopping a stopped server does nothing;
// starting a running one is an error.
func (s *Stack) withServer(which **server, work func(*server) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if *which == nil || s.stopped {
		return ErrNotOurs
	}
	return work(*which)
}
