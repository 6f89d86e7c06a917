package stack

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	_ "github.com/lib/pq" // the driver with which pingPostgres checks that the server answers
)

// postgresDefaults suit a server that runs for minutes under the load of a test or a benchmark.
var postgresDefaults = settings{
	"listen_addresses":        loopback,
	"unix_socket_directories": "", // no socket file, because its path in a data folder can be too long
	"max_connections":         "200",
	"shared_buffers":          "256MB",
	"max_wal_size":            "4GB",
	"wal_keep_size":           "1GB", // so much that a standby finds the changes that it missed while it was stopped
	"timezone":                "UTC",
	"log_timezone":            "UTC",
}

// postgresFast turns fsync off. Commits stay synchronous: without fsync that costs almost nothing, and a kill of the
// server process must not lose acknowledged commits, because a fault test would take this for a fault of the product.
var postgresFast = settings{
	"fsync":            "off",
	"full_page_writes": "off",
	"max_wal_size":     "1GB",  // the data folder may be in memory
	"scram_iterations": "1000", // clients hash so often for each of thousands of connections; lib/pq takes no fewer
}

// postgresCluster is a data folder of PostgreSQL, with the programs and settings for a server on it.
type postgresCluster struct {
	bin      string
	home     string // folder that belongs to the user as which the server runs
	logFile  string
	as       runAs
	password string
	settings settings
}

// postgresServers are a running server and its standby, with the superuser's URLs.
type postgresServers struct {
	primary, standby *server // standby is nil without Options.Standby
	url, standbyURL  string
}

// launchPostgres starts the server, and its standby if the options ask for one.
func launchPostgres(ctx context.Context, opts Options, env environment, folder *dataFolder) (s postgresServers, note string, err error) {
	as, err := pickUser()
	if err != nil {
		return s, "", err
	}
	bin, note, err := postgresBinaries(ctx, env, as)
	if err != nil {
		return s, "", err
	}
	c := postgresCluster{
		bin: bin, as: as, password: rand.Text(),
		home: folder.join("postgres"), logFile: folder.join("postgres.log"),
		settings: postgresSettings(opts),
	}
	if err := c.init(ctx); err != nil {
		return s, "", fmt.Errorf("make cluster: %w", err)
	}
	standby := c
	if opts.Standby {
		standby.home, standby.logFile = folder.join("standby"), folder.join("standby.log")
		if err := run(ctx, exec.Command("cp", "-a", c.home, standby.home), c.logFile); err != nil {
			return s, "", fmt.Errorf("copy cluster: %w", err)
		}
	}
	if s.primary, s.url, err = c.start(ctx); err != nil || !opts.Standby {
		return s, note, err
	}
	if err := standby.follow(s.url); err != nil {
		return s, "", fmt.Errorf("configure standby: %w", err)
	}
	s.standby, s.standbyURL, err = standby.start(ctx)
	return s, note, err
}

// start starts the server of the cluster and waits until it answers. It returns the server and the superuser's URL.
func (c postgresCluster) start(ctx context.Context) (srv *server, url string, err error) {
	srv, err = startOnFreePorts(ctx, 1, func(ports []int) (*server, error) {
		url = c.url(ports[0])
		return c.server(ports[0], url), nil
	})
	return srv, url, err
}

// follow configures the cluster, a copy of the primary's cluster that has never run, as a standby of the server at
// primary.
func (c postgresCluster) follow(primary string) error {
	signal := filepath.Join(c.data(), "standby.signal")
	if err := os.WriteFile(signal, nil, 0o600); err != nil {
		return err
	}
	if err := c.as.own(signal); err != nil {
		return err
	}
	c.settings = settings{"primary_conninfo": primary}
	return c.configure()
}

func postgresSettings(opts Options) settings {
	if opts.Fast {
		return postgresDefaults.with(postgresFast, opts.PostgresSettings)
	}
	return postgresDefaults.with(opts.PostgresSettings)
}

func (c postgresCluster) data() string { return filepath.Join(c.home, "data") }

// init creates the data folder. Connections require a password, because the superuser may run
// programs and other users of the machine can reach the port.
func (c postgresCluster) init(ctx context.Context) error {
	if err := os.Mkdir(c.home, 0o700); err != nil {
		return err
	}
	password := filepath.Join(c.home, "password")
	if err := os.WriteFile(password, []byte(c.password), 0o600); err != nil {
		return err
	}
	for _, path := range []string{c.home, password} {
		if err := c.as.own(path); err != nil {
			return err
		}
	}
	if err := c.as.reaches(filepath.Dir(c.home)); err != nil {
		return err
	}
	if err := run(ctx, c.initdb(password), c.logFile); err != nil {
		return err
	}
	return c.configure()
}

func (c postgresCluster) initdb(password string) *exec.Cmd {
	args := []string{
		"-D", c.data(), "-U", "postgres", "--pwfile", password,
		"--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync",
	}
	if n, ok := c.settings["scram_iterations"]; ok {
		args = append(args, "--set", "scram_iterations="+n) // initdb hashes the superuser's password
	}
	return c.program("initdb", args...)
}

// configure appends the settings to the end of postgresql.conf, because the last line with a name takes precedence in
// this file.
func (c postgresCluster) configure() error {
	file, err := os.OpenFile(filepath.Join(c.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.WriteString("\n" + c.settings.render(quotePostgres))
	return err
}

func quotePostgres(value string) string {
	return "'" + strings.ReplaceAll(value, "'", "''") + "'"
}

// program returns a command that runs one of PostgreSQL's programs. The command gets no variables of this process,
// because PG variables of this process are meant for clients of other servers.
func (c postgresCluster) program(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(c.bin, name), args...)
	cmd.Dir = c.home
	cmd.Env = []string{"PATH=" + c.bin + ":/usr/bin:/bin", "LC_ALL=C", "TZ=UTC"}
	c.as.apply(cmd)
	return cmd
}

func (c postgresCluster) server(port int, url string) *server {
	return &server{
		command: func() *exec.Cmd { return c.program("postgres", "-D", c.data(), "-p", strconv.Itoa(port)) },
		answers: func(ctx context.Context) error { return pingPostgres(ctx, url) },
		logFile: c.logFile,
		halt:    syscall.SIGQUIT, // immediate shutdown by PostgreSQL itself; after SIGKILL, shared memory remains
	}
}

func (c postgresCluster) url(port int) string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword("postgres", c.password),
		Host: address(port), Path: "/postgres", RawQuery: "sslmode=disable",
	}
	return u.String()
}

func pingPostgres(ctx context.Context, url string) error {
	db, err := sql.Open("postgres", url)
	if err != nil {
		return err
	}
	defer db.Close()
	return db.PingContext(ctx)
}
