// Package program contains what all programs share: the configuration file, the command line, the start and the
// shutdown.
package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/config"
	"github.com/dlq-manager/dlq-manager/pkg/telemetry"
)

// DefaultPath is the default path of the configuration file.
const DefaultPath = "configs/config.yaml"

// Run is the work of a program. It returns when ctx ends, or earlier with the error that stopped it.
type Run func(ctx context.Context, args, environ []string, stdout io.Writer) error

// Main runs a program until it returns, and then exits. The exit code is 0; after an error it is 1, and Main writes one
// line with the reason. SIGINT and SIGTERM end the program's context. Main exits within 25 seconds of the signal, even
// if something hangs.
func Main(name string, run Run) {
	tuneMemory(os.Getenv)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, os.Args[1:], os.Environ(), os.Stdout) }()
	code := attend(ctx, name, ended, os.Stderr)
	stopProfile()
	stop()
	os.Exit(code)
}

// oneLine returns the text of an error on one line, because log collectors treat each line as an entry of its own.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// CommandLine contains the options that every program has.
type CommandLine struct {
	Flags *pflag.FlagSet
	Path  string   // path of the configuration file
	Args  []string // arguments that are not flags

	profile string // file for the CPU profile; "" for no profile
	version bool
}

// NewCommandLine defines the common flags; the caller may add more flags to Flags before it calls Parse. usage is the
// text above the list of flags.
func NewCommandLine(name, usage string, stdout io.Writer) *CommandLine {
	c := &CommandLine{Flags: pflag.NewFlagSet(name, pflag.ContinueOnError)}
	c.Flags.SetOutput(stdout)
	c.Flags.SortFlags = false
	c.Flags.StringVar(&c.Path, "config", DefaultPath, "configuration `file`")
	c.Flags.StringVar(&c.profile, "cpu-profile", "", "write a CPU profile of the whole run to `file`, for go tool pprof")
	c.Flags.BoolVar(&c.version, "version", false, "print the version and exit")
	c.Flags.Usage = func() {
		fmt.Fprintf(stdout, "%s\n\nFlags:\n%s", usage, c.Flags.FlagUsages())
	}
	return c
}

// Parse reads args, and starts the CPU profile if a flag requests it. done reports that the program must
// exit, because Parse has printed the answer to --version or --help, or has failed with the error.
func (c *CommandLine) Parse(args []string, stdout io.Writer) (done bool, err error) {
	err = c.Flags.Parse(args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return true, nil
	case err != nil:
		return true, err
	case c.version:
		b := telemetry.ReadBuild()
		words := []string{c.Flags.Name(), b.Version, b.Revision, b.GoVersion}
		unknown := func(word string) bool { return word == "" }
		fmt.Fprintln(stdout, strings.Join(slices.DeleteFunc(words, unknown), " "))
		return true, nil
	}
	c.Args = c.Flags.Args()
	if c.profile != "" {
		err = startProfile(c.profile)
	}
	return err != nil, err
}

// NoArgs returns an error when there are arguments that are not flags. It is for programs without commands.
func (c *CommandLine) NoArgs() error {
	if len(c.Args) > 0 {
		return fmt.Errorf("unknown argument %q", c.Args[0])
	}
	return nil
}

// Base contains what every program needs first: the configuration, the logger and the registry of metrics.
type Base struct {
	Config   Config
	Log      *zap.Logger
	Registry *prometheus.Registry
	Tracing  *telemetry.Tracing // nil when no spans are recorded

	end *endTime // time at which the shutdown stops waiting for spans to be sent
}

// Start reads the configuration, and creates the logger and the registry of metrics.
func Start(service, path string, environ []string) (Base, error) {
	cfg, warnings, err := config.Load(path, "DLQ_", DefaultConfig(), config.WithEnviron(environ))
	if err != nil {
		return Base{}, err
	}
	deployment := telemetry.Deployment{Name: cfg.App.Name, Version: cfg.App.Version, Tier: cfg.App.Tier}
	log, err := telemetry.NewLogger(cfg.Log, service, telemetry.Version(), deployment)
	if err != nil {
		return Base{}, err
	}
	for _, w := range append(warnings, cfg.unencrypted()...) {
		log.Warn("configuration: " + w)
	}
	registry := telemetry.NewRegistry(deployment)
	registry.MustRegister(telemetry.NewCredentialFiles(cfg.credentialFiles()))
	return Base{Config: cfg, Log: log, Registry: registry}, nil
}
