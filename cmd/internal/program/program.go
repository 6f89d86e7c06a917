// Package program holds what all programs share: the configuration file, the command line, the
// start and the shutdown.
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

// Run is the body of a program: it works until ctx ends and returns the error that stopped it.
type Run func(ctx context.Context, args, environ []string, stdout io.Writer) error

// Main runs a program until it returns or receives SIGINT or SIGTERM, and exits: with 0 after a
// normal end, else with 1 and one line with the reason. It exits within 25 seconds of the signal,
// even if something hangs.
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

// oneLine puts an error of several lines on one line: log collectors treat each line as an entry.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// CommandLine holds the options of every program.
type CommandLine struct {
	Flags *pflag.FlagSet
	Path  string   // path of the configuration file
	Args  []string // arguments after the flags

	profile string // a file for the CPU profile; "" for none
	version bool
}

// NewCommandLine defines the common flags; the caller adds more to Flags before Parse. usage is the
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

// Parse reads args, and starts the CPU profile if a flag asks for it. done means that the program
// has printed its answer (--version or --help) and must exit.
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

// NoArgs refuses arguments after the flags, for programs without commands.
func (c *CommandLine) NoArgs() error {
	if len(c.Args) > 0 {
		return fmt.Errorf("unknown argument %q", c.Args[0])
	}
	return nil
}

// Base holds what every program needs first: configuration, logger and metrics.
type Base struct {
	Config   Config
	Log      *zap.Logger
	Registry *prometheus.Registry
	Tracing  *telemetry.Tracing // nil: no spans are recorded

	end *endTime // when the program must have stopped
}

// Start reads the configuration and creates the logger and the registry.
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
