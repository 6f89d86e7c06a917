// Package stack starts the servers that dlq-manager is tried and tested with:
// PostgreSQL 17 and Apache Kafka 4, as plain processes on free ports with a
// data folder of their own. The versions are pinned in postgres/ and kafka/ and
// fetched by npm and Maven on first use. What runs against the servers, their
// databases and topics, is left to the caller.
package stack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
)

// Options tells which servers to start and how. The zero value starts nothing.
type Options struct {
	// Postgres and Kafka choose the servers.
	Postgres bool
	Kafka    bool

	// Fast gives up safety against power loss and peak speed for a quick start
	// and quick commits: right for tests, wrong for measurements. A killed
	// server process still loses nothing that it acknowledged.
	Fast bool

	// Own starts servers even where variables name existing ones. Tests that
	// kill a server need it, because they must not kill a shared one.
	Own bool

	// Dir is where the data folder is made; empty means the system's temporary
	// folder. The data folder itself has a random name and goes away with Stop.
	Dir string

	// Log receives one line per fallback, at the start and at the end. Nil
	// discards them.
	Log io.Writer

	// PostgresSettings are added to postgresql.conf, KafkaSettings to
	// server.properties; both win over the settings of this package.
	PostgresSettings map[string]string
	KafkaSettings    map[string]string

	// KafkaAdvertise gives the broker a second listener and is the address at
	// which that one tells its clients to find the broker: that of a proxy, which
	// forwards to Stack.KafkaBehind. Empty means no such listener. Its name in the
	// settings is PROXIED.
	KafkaAdvertise string

	// KafkaHeapMB is the heap of the broker in megabytes; 0 means 512.
	KafkaHeapMB int

	// Getenv reads the environment; nil means os.Getenv.
	Getenv func(string) string
}

// Stack is a set of running servers. Its methods may be called from several
// goroutines; they run one after the other.
type Stack struct {
	opts   Options
	env    environment
	folder *dataFolder

	mu       sync.Mutex
	postgres *server
	kafka    *server
	stopped  bool

	databaseURL string
	brokers     []string
	behind      string
	notes       []string
}

// Start returns when every chosen server answers requests. The first start on a
// machine fetches the artefacts, which takes as long as the network needs; ctx
// bounds the whole. When Start fails, nothing it started is left behind.
//
// The servers end with the process that called Start, however it ends.
func Start(ctx context.Context, opts Options) (*Stack, error) {
	s := &Stack{opts: withDefaults(opts)}
	s.env = readEnvironment(s.opts.Getenv)
	s.useExisting()
	if err := s.startMissing(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start stack: %w", err), s.Stop())
	}
	s.report()
	return s, nil
}

func withDefaults(o Options) Options {
	if o.Log == nil {
		o.Log = io.Discard
	}
	if o.KafkaHeapMB == 0 {
		o.KafkaHeapMB = 512
	}
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	return o
}

// useExisting takes over the servers that the environment names.
func (s *Stack) useExisting() {
	if s.opts.Own {
		return
	}
	if s.opts.Postgres {
		s.databaseURL = s.env.databaseURL
	}
	if s.opts.Kafka {
		s.brokers = s.env.brokers
	}
}

func (s *Stack) startMissing(ctx context.Context) error {
	wantPostgres := s.opts.Postgres && s.databaseURL == ""
	wantKafka := s.opts.Kafka && len(s.brokers) == 0
	if !wantPostgres && !wantKafka {
		return nil
	}
	folder, err := newDataFolder(s.opts.Dir)
	if err != nil {
		return err
	}
	s.folder = folder
	return s.startBoth(ctx, wantPostgres, wantKafka)
}

// startBoth starts the servers at the same time: each spends most of its start
// on one core. When one fails the other is given up at once.
func (s *Stack) startBoth(ctx context.Context, wantPostgres, wantKafka bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan error, 2)
	launch := func(wanted bool, start func(context.Context) error) {
		if !wanted {
			results <- nil
			return
		}
		go func() { results <- start(ctx) }()
	}
	launch(wantPostgres, s.startPostgres)
	launch(wantKafka, s.startKafka)

	var failure error
	for range 2 {
		// Only the first failure has a cause of its own.
		if err := <-results; err != nil && failure == nil {
			failure = err
			cancel()
		}
	}
	return failure
}

func (s *Stack) startPostgres(ctx context.Context) error {
	srv, url, note, err := launchPostgres(ctx, s.opts, s.env, s.folder)
	if err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.postgres, s.databaseURL = srv, url
	s.note(note)
	return nil
}

func (s *Stack) startKafka(ctx context.Context) error {
	srv, at, note, err := launchKafka(ctx, s.opts, s.env, s.folder)
	if err != nil {
		return fmt.Errorf("kafka: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kafka, s.brokers, s.behind = srv, []string{at.broker}, at.behind
	s.note(note)
	return nil
}

func (s *Stack) note(line string) {
	if line != "" {
		s.notes = append(s.notes, line)
	}
}

func (s *Stack) report() {
	for _, line := range s.notes {
		fmt.Fprintln(s.opts.Log, "stack:", line)
	}
}

// DatabaseURL is the superuser's URL of the database "postgres", or "" without
// PostgreSQL. Databases and roles of one's own are made through it.
func (s *Stack) DatabaseURL() string { return s.databaseURL }

// Brokers are the bootstrap addresses of Kafka, or nil without Kafka.
func (s *Stack) Brokers() []string { return append([]string(nil), s.brokers...) }

// KafkaBehind is where the proxy of Options.KafkaAdvertise has to forward to, or
// "" without one, and for brokers that Start did not start.
func (s *Stack) KafkaBehind() string { return s.behind }

// Notes has one sentence for each server that is not the pinned one but a
// stand-in. It is empty when everything is as pinned.
func (s *Stack) Notes() []string { return append([]string(nil), s.notes...) }

// Environ names the servers in the form KEY=VALUE, for processes that shall use
// them instead of starting their own.
func (s *Stack) Environ() []string {
	var env []string
	if s.databaseURL != "" {
		env = append(env, DatabaseURLVariable+"="+s.databaseURL)
	}
	if len(s.brokers) > 0 {
		env = append(env, BrokersVariable+"="+strings.Join(s.brokers, ","))
	}
	return env
}

// Stop ends the servers that Start started and removes their data. Further
// calls do nothing.
func (s *Stack) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil
	}
	s.stopped = true
	// The data goes away with the servers, so none of them needs to save it.
	errs := []error{s.kafka.kill(), s.postgres.kill(), s.folder.remove()}
	s.report()
	return errors.Join(errs...)
}
