// Package program is what the binaries have in common: the configuration file,
// the command line, and how a program starts and ends. What a program does is
// its own.
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

// DefaultPath is where the configuration is looked for.
const DefaultPath = "configs/config.yaml"

// Run is a program: it works until ctx ends and returns what stopped it.
type Run func(ctx context.Context, args, environ []string, stdout io.Writer) error

// Main runs a program until it ends or is told to by SIGINT or SIGTERM, and
// exits: 0 when it ended as it should, else 1 with one line that says why. It
// ends within 25 seconds of being told to, whatever still hangs then.
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

// oneLine keeps an error of many parts on the one line that log collectors take
// for it.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// CommandLine is what every program understands.
type CommandLine struct {
	Flags *pflag.FlagSet
	Path  string   // of the configuration file
	Args  []string // behind the flags

	profile string // a file for the CPU profile; "" for none
	version bool
}

// NewCommandLine prepares the common flags; the caller adds its own to Flags
// before Parse. usage is the text above the list of flags.
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

// Parse reads args, and begins the CPU profile when one is asked for. done means
// that the program has answered already (--version or --help) and is to end.
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

// NoArgs refuses words behind the flags, for programs that have no commands.
func (c *CommandLine) NoArgs() error {
	if len(c.Args) > 0 {
		return fmt.Errorf("unknown argument %q", c.Args[0])
	}
	return nil
}

// Base is what every program starts with.
type Base struct {
	Config   Config
	Log      *zap.Logger
	Registry *prometheus.Registry
	Tracing  *telemetry.Tracing // nil: none

	end *endTime // of the program, for those who stop last
}

// Start reads the configuration and builds the logger and the registry.
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
