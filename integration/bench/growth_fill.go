package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres"
)

const (
	growthGroups = 100
	growthStep   = 50_000 // rows of one statement
	growthDays   = 29     // over which filled messages are spread: less than archiveDays

	// Messages that are to be archived in the last round are so much older than all
	// that stay, those of the round before are so much older than these, and so on.
	growthOldDays = 15
	growthOld     = growthOldDays * 24 * time.Hour
)

// filler writes messages fast, in the order of their ids and times.
type filler struct {
	*database              // whose sessions fire no triggers
	table        *database // the same with ordinary sessions
	begin        time.Time
	each         time.Duration // between two messages
	rows         int           // live messages
	topics       []int64       // ids of the dead-letter topics, in the order of names
	incarnations []int64       // ids of their incarnations
	old          []numbers     // of messages that are there to be archived
}

// numbers are those of some messages, from the first to the last.
type numbers struct{ first, last int }

func (b *bench) newFiller(ctx context.Context, d *database, store *postgres.Store) (*filler, error) {
	f := newFillerOf(max(b.opts.share(growthSizes[len(growthSizes)-1]), 1), time.Now().UTC())
	f.table = d
	var topics []repository.Topic
	for _, name := range names {
		topics = append(topics, repository.Topic{Name: deadLetterTopic(name), Incarnation: "growth"})
	}
	refs, err := store.OpenTopics(ctx, topics)
	if err != nil {
		return nil, err
	}
	for _, r := range refs {
		f.topics, f.incarnations = append(f.topics, int64(r.TopicID)), append(f.incarnations, int64(r.Incarnation))
	}
	if _, err := d.ExecContext(ctx, `
		INSERT INTO dlq.error_groups (id, class, title, first_seen, last_seen)
		SELECT ('67726f7570206f66207265616473' || lpad(to_hex(g), 4, '0'))::uuid, 'com.example.Failure' || g % 20,
			'order <n> cannot be charged, code ' || g, now() - interval '29 days', now()
		FROM generate_series(0, $1::int - 1) AS g`, growthGroups); err != nil {
		return nil, fmt.Errorf("write the groups: %w", err)
	}
	u := *d.url
	query := u.Query()
	query.Set("session_replication_role", "replica")
	query.Set("synchronous_commit", "off")
	u.RawQuery = query.Encode()
	f.database, err = openDatabase(u.String())
	return f, err
}

// newFillerOf spreads so many messages and a tenth more over the days before now.
func newFillerOf(messages int, now time.Time) *filler {
	return &filler{
		begin: now.AddDate(0, 0, -growthDays),
		each:  growthDays * 24 * time.Hour / time.Duration(messages+messages/10),
	}
}

// moment is the time of message n.
func (f *filler) moment(n int) time.Time { return f.begin.Add(time.Duration(n) * f.each) }

// filledID is the id of message n.
func filledID(n int) uuid.UUID {
	return uuid.MustParse(fmt.Sprintf("018f%08x70008000%012d", n, 0))
}

// draw returns the number of a message that stays.
func (f *filler) draw(random *rand.Rand) int {
	for {
		n := 1 + random.IntN(f.rows)
		if !slices.ContainsFunc(f.old, func(o numbers) bool { return o.first <= n && n <= o.last }) {
			return n
		}
	}
}

// growthRows writes messages $1 to $2 and counts them. Only what is in an index
// differs from one to the next: to make anything else takes time. They begin at $3, one every
// $4; with $5 they all have that status. $6 and $7 are the ids of topics.
const growthRows = `
	WITH made AS (
		INSERT INTO dlq.dlq_messages (id, original_topic, error_message, status, retry_count, created_at, updated_at, last_retry_at,
			key, value, headers, payload, origin_confidence, dialect, consumer_group, error_class, group_id,
			dlq_topic_id, dlq_incarnation_id, dlq_partition, dlq_offset, dlq_timestamp)
		SELECT ('018f' || lpad(to_hex(n), 8, '0') || '70008000000000000000')::uuid,
			($8::text[])[1 + n % $9::int], 'order <n> cannot be charged', status,
			CASE status WHEN 'PENDING' THEN 0 WHEN 'RESOLVED' THEN 1 ELSE 3 END,
			moment, moment, CASE WHEN status <> 'PENDING' THEN moment END,
			int4send(n), '{"note": "narrow"}', '\x00', '{"note": "narrow"}', 'header', 'spring-dlt', 'bench',
			'com.example.Failure' || n % 20, ('67726f7570206f66207265616473' || lpad(to_hex(n % 100), 4, '0'))::uuid,
			($6::int[])[1 + n % $9], ($7::int[])[1 + n % $9], n % 12, n, moment
		FROM (
			SELECT n, $3::timestamptz + n * $4::interval AS moment,
				coalesce($5::text, CASE WHEN n % 10 < 5 THEN 'PENDING' WHEN n % 10 < 8 THEN 'RESOLVED' ELSE 'DEAD' END) AS status
			FROM generate_series($1::int, $2::int) AS n OFFSET 0
		) made
		RETURNING original_topic, dlq_topic_id, status, group_id
	), counted AS (
		INSERT INTO dlq.message_counters AS c
		SELECT original_topic, dlq_topic_id, status, pg_backend_pid() % 16, count(*)
		FROM made GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
		ON CONFLICT (original_topic, dlq_topic_id, status, shard)
		DO UPDATE SET messages = c.messages + excluded.messages
	)
	INSERT INTO dlq.group_counters AS c
	SELECT group_id, original_topic, status, pg_backend_pid() % 4, count(*)
	FROM made GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
	ON CONFLICT (group_id, original_topic, status, shard)
	DO UPDATE SET messages = c.messages + excluded.messages`

// to fills the table until there are so many live messages, of which so many are
// old enough to be archived in each round.
func (f *filler) to(ctx context.Context, rows, old int) error {
	missing, err := f.missing(ctx, rows)
	if err != nil {
		return err
	}
	if missing < growthRounds*old {
		return fmt.Errorf("fill: %d messages are missing, of which %d are to be old", missing, growthRounds*old)
	}
	if err := f.table.all(ctx, hurry); err != nil {
		return err
	}
	first, at := f.rows+1, f.rows+1
	for round := range growthRounds {
		err = errors.Join(err, f.write(ctx, at, at+old-1, f.oldFrom(at, round), "RESOLVED"))
		at += old
	}
	if err == nil {
		err = f.write(ctx, at, f.rows+missing, f.begin, nil)
	}
	if err = errors.Join(err, f.table.all(context.WithoutCancel(ctx), calm)); err != nil {
		return err
	}
	f.old = append(f.old, numbers{first, at - 1})
	f.rows += missing
	return f.table.all(ctx, settled)
}

// alone keeps autovacuum away: whether it comes into a step that takes a second is
// luck.
var alone = []string{`ALTER SYSTEM SET autovacuum = off`, `SELECT pg_reload_conf()`}

// attended ends that.
var attended = []string{`ALTER SYSTEM RESET autovacuum`, `SELECT pg_reload_conf()`}

// settled is what autovacuum would have done, to all tables that were filled and that
// the steps before have used, and leaves nothing to be written.
var settled = []string{`VACUUM (ANALYZE)`, `CHECKPOINT`}

// hurry lets filling wait for no checkpoint, nor write the whole pages that the log
// holds after each.
var hurry = []string{
	`ALTER SYSTEM SET max_wal_size = '24GB'`,
	`ALTER SYSTEM SET full_page_writes = off`,
	`SELECT pg_reload_conf()`,
}

// calm makes everything as it was.
var calm = []string{
	`ALTER SYSTEM RESET max_wal_size`,
	`ALTER SYSTEM RESET full_page_writes`,
	`SELECT pg_reload_conf()`,
}

func (d *database) all(ctx context.Context, statements []string) error {
	for _, statement := range statements {
		if _, err := d.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// oldFrom is a beginning with which message n is old enough to be archived in a round.
func (f *filler) oldFrom(n, round int) time.Time {
	return f.begin.Add(-time.Duration(growthRounds-round)*growthOld - time.Duration(n)*f.each)
}

// missing is how many messages there are to write.
func (f *filler) missing(ctx context.Context, rows int) (int, error) {
	live, err := f.table.number(ctx, countCounters)
	return rows - int(live), err
}

// write makes messages of these numbers; status is nil for a mix.
func (f *filler) write(ctx context.Context, from, to int, begin time.Time, status any) error {
	var steps []int
	for at := from; at <= to; at += growthStep {
		steps = append(steps, at)
	}
	var originals []string
	for _, name := range names {
		originals = append(originals, originalTopic(name))
	}
	err := inBatches(fillConnections, 1, steps, func(at []int) error {
		_, err := f.ExecContext(ctx, growthRows, at[0], min(at[0]+growthStep-1, to), begin,
			fmt.Sprintf("%d microseconds", f.each.Microseconds()), status,
			pq.Array(f.topics), pq.Array(f.incarnations), pq.Array(originals), len(originals))
		return err
	})
	if err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	return nil
}
