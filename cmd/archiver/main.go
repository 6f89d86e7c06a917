// The program archiver moves finished messages to the archive, and deletes messages that have been in the archive for
// long enough. It runs once, or on a schedule.
package main

import (
	"context"
	"errors"
	"io"

	"github.com/dlq-manager/dlq-manager/cmd/internal/program"
	"github.com/dlq-manager/dlq-manager/pkg/archive"
	"github.com/dlq-manager/dlq-manager/pkg/migrate"
)

const usage = `Usage: dlq-manager-archiver [flags]

Does one run and exits, or stays and runs when --schedule says so.`

func main() { program.Main("dlq-manager-archiver", run) }

func run(ctx context.Context, args, environ []string, stdout io.Writer) error {
	line := program.NewCommandLine("dlq-manager-archiver", usage, stdout)
	schedule := line.Flags.String("schedule", "", `five cron fields in UTC, such as "0 3 * * *"; overrides archive.schedule`)
	if done, err := line.Parse(args, stdout); done {
		return err
	}
	if err := line.NoArgs(); err != nil {
		return err
	}
	base, err := program.Start("archiver", line.Path, environ)
	if err != nil {
		return err
	}
	defer func() { _ = base.Log.Sync() }()
	if base.Config.Database == nil {
		return errors.New("the configuration has no database section: there is nothing to archive")
	}
	err = work(ctx, base, *schedule)
	// the program was asked to stop: the batches that are committed stay archived, and the next run archives the rest
	if ctx.Err() != nil {
		base.Log.Info("stopped")
		return nil
	}
	return err
}

// work connects to the database and performs one run, or runs on a schedule if there is one.
func work(ctx context.Context, base program.Base, schedule string) error {
	db, err := base.PatientDatabase(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	// One connection holds the archiver's lock, the second one does the work, and the third one cancels the work at
	// shutdown.
	db.SetMaxOpenConns(max(3, base.Config.Database.MaxOpenConns))
	if err := migrate.Check(ctx, db.DB); err != nil {
		return err
	}

	cfg := base.Config.Archive
	if schedule != "" {
		cfg.Schedule = schedule
	}
	with, err := base.ArchiveTier(ctx, db)
	if err != nil {
		return err
	}
	archiver := archive.New(cfg, base.Store(db), base.Log, with...)
	if cfg.Schedule != "" {
		return archiver.RunOnSchedule(ctx, cfg.Schedule)
	}
	_, err = archiver.Run(ctx)
	return err
}
