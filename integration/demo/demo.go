package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/dlq-manager/dlq-manager/integration/registry"
	"github.com/dlq-manager/dlq-manager/integration/shop"
	"github.com/dlq-manager/dlq-manager/integration/stack"
)

// startPatience limits the start of the demo, up to the printed guide. In the first run on a machine, this includes the
// download of the servers.
const startPatience = 12 * time.Minute

// demo holds the servers, the programs and the shop.
type demo struct {
	opts options
	out  *lines

	folder   string // for configuration and logs
	stack    *stack.Stack
	site     site
	api      *service
	ingester *service
	shop     *openShop
	registry *http.Server
}

// site holds the addresses of the programs and servers, and the path of the configuration file.
type site struct {
	api      string // base URLs
	ingester string
	config   string
	database databaseAddress
	brokers  []string
	registry string // URL of the schema registry
}

func newDemo(opts options, out io.Writer) *demo { return &demo{opts: opts, out: &lines{w: out}} }

// run starts all parts of the demo, and prints what to try. It stops all parts when ctx ends, when the time of -for is
// over, or when a part fails; then it returns the error of this part.
func (d *demo) run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, d.stop(err != nil)) }()
	if err := d.start(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // stopped during the start
		}
		return err
	}
	return d.stay(ctx)
}

func (d *demo) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	for _, step := range []func(context.Context) error{
		d.findPrograms, d.startStack, d.configure, d.migrate, d.prepareShop, d.startPrograms, d.openShop, d.guide,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// findPrograms returns an error when a program of dlq-manager is not built. It runs before the servers are started,
// because they would be useless without the programs.
func (d *demo) findPrograms(context.Context) error {
	for _, kind := range []string{"api", "ingester"} {
		if _, err := os.Stat(d.program(kind)); err != nil {
			return fmt.Errorf("build the programs first: %w", err)
		}
	}
	return nil
}

func (d *demo) program(kind string) string { return filepath.Join(d.opts.bin, "dlq-manager-"+kind) }

func (d *demo) startStack(ctx context.Context) (err error) {
	d.out.say("starting PostgreSQL and Kafka (the first start downloads them, which takes a while)")
	// The demo always starts its own servers, because a shared cluster may already have the shop's topics.
	d.stack, err = stack.Start(ctx, stack.Options{Postgres: true, Kafka: true, Fast: true, Own: true, Log: d.out})
	return err
}

// configure makes the demo's folder, does what plan says, and writes the configuration file that the API and the
// ingester share.
func (d *demo) configure(ctx context.Context) (err error) {
	if d.folder, err = os.MkdirTemp("", "dlq-manager-demo-"); err != nil {
		return err
	}
	if d.site, err = d.plan(ctx); err != nil {
		return err
	}
	return d.site.writeConfig()
}

// plan creates the database, chooses the ports of the programs, starts the schema registry, and returns all addresses.
func (d *demo) plan(ctx context.Context) (site, error) {
	database, err := createDatabase(ctx, d.stack.DatabaseURL())
	if err != nil {
		return site{}, err
	}
	apiPort, err := d.apiPort()
	if err != nil {
		return site{}, err
	}
	ingesterPort, err := freePort()
	if err != nil {
		return site{}, err
	}
	schemas, err := d.startRegistry()
	if err != nil {
		return site{}, err
	}
	return site{
		api: baseURL(apiPort), ingester: baseURL(ingesterPort), database: database, brokers: d.stack.Brokers(),
		config: filepath.Join(d.folder, "config.yaml"), registry: schemas,
	}, nil
}

// startRegistry starts the schema registry, in which the shop registers its schemas, and returns its URL.
func (d *demo) startRegistry() (string, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		return "", fmt.Errorf("schema registry: %w", err)
	}
	d.registry = &http.Server{Handler: registry.New(registry.Options{}), ReadHeaderTimeout: requestPatience}
	go func() { _ = d.registry.Serve(listener) }() // Serve returns when the method stop closes the registry
	return "http://" + listener.Addr().String(), nil
}

func (d *demo) apiPort() (int, error) {
	if isFree(d.opts.port) {
		return d.opts.port, nil
	}
	port, err := freePort()
	if err == nil && d.opts.port != 0 {
		d.out.say("port %d is in use, the API gets %d", d.opts.port, port)
	}
	return port, err
}

func (d *demo) migrate(ctx context.Context) error {
	d.out.say("migrating the database")
	c, err := startService(d.child("api", "migrate", "migrate", "up"))
	if err != nil {
		return err
	}
	select {
	case <-c.Done():
		return c.failure()
	case <-ctx.Done():
		return errors.Join(ctx.Err(), c.stop())
	}
}

// prepareShop creates the shop's topics before the ingester starts, so that the ingester finds them at once.
func (d *demo) prepareShop(ctx context.Context) (err error) {
	cfg := shop.DefaultConfig()
	cfg.Brokers, cfg.Registry = d.site.brokers, d.site.registry
	d.shop, err = prepareShop(ctx, cfg, d.out.prefixed("shop: "))
	return err
}

func (d *demo) startPrograms(ctx context.Context) (err error) {
	d.out.say("starting the API and the ingester")
	if d.api, err = startService(d.child("api", "api")); err != nil {
		return err
	}
	ingester := d.child("ingester", "ingester")
	ingester.env = []string{"DLQ_SERVER_PORT=" + portOf(d.site.ingester)}
	if d.ingester, err = startService(ingester); err != nil {
		return err
	}
	if err := awaitReady(ctx, d.api, d.site.api); err != nil {
		return err
	}
	return awaitReady(ctx, d.ingester, d.site.ingester)
}

// child describes how to run a program of dlq-manager with the demo's configuration file. Its output goes to the log
// file of the given name.
func (d *demo) child(kind, name string, args ...string) program {
	return program{
		name: name,
		path: d.program(kind),
		args: append(args, "--config", d.site.config),
		log:  filepath.Join(d.folder, name+".log"),
	}
}

func (d *demo) openShop(context.Context) error {
	d.out.say("opening the shop, waiting for the first dead letters")
	d.shop.open()
	return nil
}

// guide waits until the first dead letters are stored, ends the temporary failures of the shop, and prints what to try
// with the messages.
func (d *demo) guide(ctx context.Context) error {
	examples, err := awaitExamples(ctx, d.site.api, d.shop.BurstFailures())
	if err != nil {
		return err
	}
	d.shop.Recover()
	d.out.print(guide(d.site, d.folder, examples))
	return nil
}

// stay returns when ctx ends, when the time of -for is over, or when a part of the demo ends by itself; only then it
// returns an error.
func (d *demo) stay(ctx context.Context) error {
	var over <-chan time.Time
	if d.opts.stay > 0 {
		timer := time.NewTimer(d.opts.stay)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-ctx.Done():
		return nil
	case <-over:
		return nil
	case <-d.api.Done():
		return d.api.ended()
	case <-d.ingester.Done():
		return d.ingester.ended()
	case err := <-d.shop.done:
		return fmt.Errorf("the shop closed: %w", err)
	}
}

// stop stops everything that was started, the shop first and the servers last. It keeps the logs
// after a failure.
func (d *demo) stop(failed bool) error {
	d.out.say("stopping")
	errs := []error{d.shop.close(), d.ingester.stop(), d.api.stop()}
	if d.registry != nil {
		errs = append(errs, d.registry.Close())
	}
	if d.stack != nil {
		errs = append(errs, d.stack.Stop())
	}
	err := errors.Join(errs...)
	switch {
	case d.folder == "":
	case failed || err != nil:
		d.out.say("logs are in %s", d.folder)
	default:
		err = os.RemoveAll(d.folder)
	}
	if err == nil {
		d.out.say("everything is stopped")
	}
	return err
}
