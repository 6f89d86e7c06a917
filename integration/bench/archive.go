package main

import (
	"context"
	"path/filepath"
)

const archiveDays = 40 // age in days of the messages; by default, the archiver archives messages older than 30 days

// archive measures one archiver run over a table of messages.
func archive(ctx context.Context, s *side) []figure {
	n := s.opts.count(recordsToArchive)
	d := s.database(ctx, "archive", s.id)
	defer s.drop(ctx, d)
	d.fill(ctx, n, 1, archiveDays, s.id, `'RESOLVED'`, 28)
	work := timed(func() int {
		output(ctx, "", filepath.Join(s.programs, "archiver"), "--config", d.config)
		return n
	})
	expect("messages that were not archived", d.number(ctx, countRows), 0)
	expect("messages in the archive", d.number(ctx, `SELECT count(DISTINCT id) FROM dlq.dlq_messages_archive`), int64(n))
	return append([]figure{work.rate("archive")}, work.processors("archive", "postgres")...)
}
