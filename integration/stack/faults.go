package stack

import (
	"context"
	"errors"
	"syscall"
)

// ErrNotOurs is the error of a method that stops or starts a server which this stack has not started, because the
// server existed before or because Options did not ask for it. After Stack.Stop, these methods also return ErrNotOurs.
var ErrNotOurs = errors.New("the server was not started by this stack")

// Broker is one broker of Kafka.
type Broker struct {
	stack *Stack
	id    int
}

// Broker returns the broker with this id. The ids begin with 1.
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
	return b.with(func(srv *server) error { return srv.startAgain(ctx) })
}

// Pause suspends the process of the broker, and returns when it is suspended. Its connections stay open, but it answers
// no request. Pause does nothing if the process has ended.
func (b Broker) Pause() error { return b.with((*server).pause) }

// Resume lets a broker continue that Pause has suspended.
func (b Broker) Resume() error {
	return b.with(func(srv *server) error { return srv.signal(syscall.SIGCONT) })
}

func (b Broker) with(work func(*server) error) error {
	if b.id < 1 || b.id > len(b.stack.kafka) {
		return ErrNotOurs
	}
	return b.stack.withServer(&b.stack.kafka[b.id-1], work)
}

// StopKafka stops the first broker as Broker.Stop does.
func (s *Stack) StopKafka() error { return s.Broker(1).Stop() }

// KillKafka kills the first broker.
func (s *Stack) KillKafka() error { return s.Broker(1).Kill() }

// StartKafka starts the first broker again after it was stopped or killed.
func (s *Stack) StartKafka(ctx context.Context) error { return s.Broker(1).Start(ctx) }

// PauseKafka suspends the first broker.
func (s *Stack) PauseKafka() error { return s.Broker(1).Pause() }

// ResumeKafka lets the first broker continue after PauseKafka.
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
	return s.withServer(&s.postgres, func(srv *server) error { return srv.startAgain(ctx) })
}

// KillStandby kills the standby, as KillPostgres kills the primary.
func (s *Stack) KillStandby() error { return s.withServer(&s.standby, (*server).kill) }

// StartStandby starts a killed standby, which then receives what it missed.
func (s *Stack) StartStandby(ctx context.Context) error {
	return s.withServer(&s.standby, func(srv *server) error { return srv.startAgain(ctx) })
}

// withServer calls the function work with a server that this stack has started, or returns ErrNotOurs. A function that
// stops a stopped server does nothing; a function that starts a running server returns an error.
func (s *Stack) withServer(which **server, work func(*server) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if *which == nil || s.stopped {
		return ErrNotOurs
	}
	return work(*which)
}
