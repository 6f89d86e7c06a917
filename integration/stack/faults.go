package stack

import (
	"context"
	"errors"
	"syscall"
)

// ErrNotOurs is the error of stopping or starting a server that this stack did not start: it
// existed before, or was not requested.
var ErrNotOurs = errors.New("the server was not started by this stack")

// Broker is one broker of Kafka.
type Broker struct {
	stack *Stack
	id    int
}

// Broker returns the broker with an id; the first has 1.
func (s *Stack) Broker(id int) Broker { return Broker{stack: s, id: id} }

// Stop stops the broker cleanly: it gives up its leaderships, closes its files and leaves the cluster.
func (b Broker) Stop() error {
	return b.with(func(srv *server) error { return srv.stop(syscall.SIGTERM) })
}

// Kill kills the broker.
func (b Broker) Kill() error { return b.with((*server).kill) }

// Start starts a stopped or killed broker at the same address with the same data, and returns when it answers as a
// member of the cluster.
func (b Broker) Start(ctx context.Context) error {
	return b.with(func(srv *server) error { return srv.start(ctx) })
}

// Pause suspends the broker and returns when it is suspended: its connections stay open without answers. It does
// nothing if the broker has ended.
func (b Broker) Pause() error { return b.with((*server).pause) }

// Resume resumes a paused broker.
func (b Broker) Resume() error {
	return b.with(func(srv *server) error { return srv.signal(syscall.SIGCONT) })
}

func (b Broker) with(work func(*server) error) error {
	if b.id < 1 || b.id > len(b.stack.kafka) {
		return ErrNotOurs
	}
	return b.stack.withServer(&b.stack.kafka[b.id-1], work)
}

// StopKafka does Broker.Stop with the first broker; so do the next four methods.
func (s *Stack) StopKafka() error { return s.Broker(1).Stop() }

// KillKafka kills the broker.
func (s *Stack) KillKafka() error { return s.Broker(1).Kill() }

// StartKafka starts a stopped or killed broker.
func (s *Stack) StartKafka(ctx context.Context) error { return s.Broker(1).Start(ctx) }

// PauseKafka suspends the broker.
func (s *Stack) PauseKafka() error { return s.Broker(1).Pause() }

// ResumeKafka resumes a paused broker.
func (s *Stack) ResumeKafka() error { return s.Broker(1).Resume() }

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
