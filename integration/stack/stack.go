// Package stack starts PostgreSQL 17 and Apache Kafka 4, to try and test dlq-manager. The servers are plain processes
// that listen on free ports and keep their data in a folder of their own. The files in postgres/ and kafka/ pin their
// versions; npm and Maven download them on first use. The caller creates databases and topics.
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

// Options selects and configures the servers. The zero value starts none.
type Options struct {
	// Postgres and Kafka choose the servers.
	Postgres bool
	Kafka    bool

	// Standby also starts a streaming standby of PostgreSQL. It requires that Own is set.
	Standby bool

	// KafkaCluster starts three brokers instead of one. Each topic has a replica on all three brokers, and a record is
	// acknowledged only if at least two of them have it. It cannot be combined with KafkaAdvertise or
	// KafkaAuthority.
	KafkaCluster bool

	// Fast makes the servers start and commit quickly, but they lose data when the machine loses power, and their peak
	// speed is lower. So it is for tests and not for measurements. If only the server process is killed, no
	// acknowledged commit is lost.
	Fast bool

	// Own starts servers even if variables name existing ones. Tests that kill a server need Own, because they must not
	// kill a shared server.
	Own bool

	// Dir is the parent of the data folder; empty means the system's temporary folder or, with Fast, a folder in memory if
	// there is much room. The data folder has a random name, and Stop removes it.
	Dir string

	// Log receives one line per fallback, at the start and at the end. Nil discards these lines.
	Log io.Writer

	// PostgresSettings are added to postgresql.conf and KafkaSettings to server.properties. They override the settings
	// that this package chooses.
	PostgresSettings map[string]string
	KafkaSettings    map[string]string

	// KafkaAdvertise is the address of a proxy that forwards to Stack.KafkaBehind. If it is set, the broker has a
	// second listener, which tells its clients this address. Kafka's settings call this listener PROXIED. Empty means
	// no second listener.
	KafkaAdvertise string

	// KafkaAuthority adds another listener to the broker, and access rules. The listener accepts clients with a certificate
	// of this authority; the certificate's name is the name of the user, who may do only what ACLs permit. Clients of the
	// other listeners may do everything. Nil means no such listener. Its name in the settings is SECURED. It cannot be
	// combined with KafkaCluster.
	KafkaAuthority *Authority

	// KafkaOptions are more options of the broker's JVM, such as system properties.
	KafkaOptions []string

	// KafkaHeapMB is the heap of each broker in megabytes; 0 means 512, and 256 in a cluster.
	KafkaHeapMB int

	// Getenv reads the environment; nil means os.Getenv.
	Getenv func(string) string
}

// Stack is a set of running servers. Its methods are safe for concurrent use; concurrent calls run one after the other.
type Stack struct {
	opts   Options
	env    environment
	folder *dataFolder

	mu       sync.Mutex
	postgres *server
	standby  *server
	kafka    []*server // the brokers, in the order of their ids
	stopped  bool

	databaseURL string
	standbyURL  string
	brokers     []string
	behind      string
	secured     string
	notes       []string
}

// Start returns when every chosen server answers requests. The first start on a machine downloads
// the artefacts, which may take long; ctx limits the whole start. A failed Start stops and removes
// everything that it started.
//
// On Linux, the servers end with the process that called Start, however the process ends.
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
		if o.KafkaCluster {
			o.KafkaHeapMB = 256
		}
	}
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	return o
}

// useExisting uses the servers that the environment names.
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
	makeFolder := newDataFolder
	if s.opts.Fast {
		makeFolder = newFastFolder
	}
	folder, err := makeFolder(s.opts.Dir)
	if err != nil {
		return err
	}
	s.folder = folder
	return s.startBoth(ctx, wantPostgres, wantKafka)
}

// startBoth starts the servers at the same time, because each of them uses only one core for most of its start. If one
// server fails to start, the start of the other is cancelled at once.
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
		// Only the first failure is returned: the second one may be the result of the cancellation.
		if err := <-results; err != nil && failure == nil {
			failure = err
			cancel()
		}
	}
	return failure
}

func (s *Stack) startPostgres(ctx context.Context) error {
	servers, note, err := launchPostgres(ctx, s.opts, s.env, s.folder)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.postgres, s.databaseURL, s.standby, s.standbyURL = servers.primary, servers.url, servers.standby, servers.standbyURL
	if err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	s.note(note)
	return nil
}

func (s *Stack) startKafka(ctx context.Context) error {
	k, note, err := launchKafka(ctx, s.opts, s.env, s.folder)
	if err != nil {
		return fmt.Errorf("kafka: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kafka, s.behind, s.secured = k.brokers, k.at[0].behind, k.at[0].secured
	for _, at := range k.at {
		s.brokers = append(s.brokers, at.broker)
	}
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

// DatabaseURL returns the superuser's URL of the database "postgres", or "" without PostgreSQL. The
// caller uses it to create databases and roles.
func (s *Stack) DatabaseURL() string { return s.databaseURL }

// StandbyURL returns the superuser's URL of the standby's database "postgres", or "" without a standby.
func (s *Stack) StandbyURL() string { return s.standbyURL }

// Brokers returns the bootstrap addresses of Kafka, or nil without Kafka.
func (s *Stack) Brokers() []string { return append([]string(nil), s.brokers...) }

// KafkaBehind returns the address to which the proxy of Options.KafkaAdvertise must forward, or "" without a proxy and
// for brokers that Start did not start.
func (s *Stack) KafkaBehind() string { return s.behind }

// KafkaSecured returns the address of the listener of Options.KafkaAuthority, or "" without it.
func (s *Stack) KafkaSecured() string { return s.secured }

// KafkaAuthority returns the authority of the clients of KafkaSecured, or nil without one.
func (s *Stack) KafkaAuthority() *Authority { return s.opts.KafkaAuthority }

// Notes returns one sentence for each stand-in that Start started.
func (s *Stack) Notes() []string { return append([]string(nil), s.notes...) }

// Environ returns the servers' addresses in the form KEY=VALUE, for processes that use these
// servers instead of starting their own.
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

// Stop stops the servers that Start started and removes their data. Further calls do nothing.
func (s *Stack) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil
	}
	s.stopped = true
	// The data is deleted with the servers, so no server needs to save its data.
	var errs []error
	for _, broker := range s.kafka {
		errs = append(errs, broker.kill())
	}
	errs = append(errs, s.standby.kill(), s.postgres.kill(), s.folder.remove())
	s.report()
	return errors.Join(errs...)
}
