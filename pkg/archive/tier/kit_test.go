package tier

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// site is a database and a bucket, with a mover, a rewriter and an archive that use both.
type site struct {
	t       *testing.T
	db      *sqlx.DB
	store   *postgres.Store
	objects *postgres.Objects
	bucket  *faulty
	mover   *Mover
	rewrite *Rewriter
	archive *Archive

	client *minio.Client // the test's own client; the archive has another client
	name   string        // name of the bucket
	config Config
}

// faulty is a bucket that calls its function before, if it is set, at the start of each write, read and deletion of an
// object. If the function returns an error, the request fails with it.
type faulty struct {
	Bucket
	before func(operation, key string) error
}

func (f *faulty) call(operation, key string) error {
	if f.before == nil {
		return nil
	}
	return f.before(operation, key)
}

func (f *faulty) Put(ctx context.Context, key string, content []byte) error {
	if err := f.call("put", key); err != nil {
		return err
	}
	return f.Bucket.Put(ctx, key, content)
}

func (f *faulty) Read(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	if err := f.call("read", key); err != nil {
		return nil, err
	}
	return f.Bucket.Read(ctx, key, offset, length)
}

func (f *faulty) Delete(ctx context.Context, key string) (time.Time, error) {
	if err := f.call("delete", key); err != nil {
		return time.Time{}, err
	}
	return f.Bucket.Delete(ctx, key)
}

func newSite(t *testing.T, opts minio.MakeBucketOptions) *site {
	t.Helper()
	return newSiteOn(t, postgrestest.URL(t), opts)
}

// newSiteOn returns a site with a new bucket and with the database at the given URL.
func newSiteOn(t *testing.T, at string, opts minio.MakeBucketOptions) *site {
	t.Helper()
	server := stacktest.S3(t)
	s := &site{t: t, db: check.Must(sqlx.Connect("postgres", at))(t), name: "b-" + uuid.NewString()}
	t.Cleanup(func() { _ = s.db.Close() })
	s.client = check.Must(minio.New(strings.TrimPrefix(server.Endpoint, "http://"), &minio.Options{
		Creds: credentials.NewStaticV4(server.AccessKey, server.Secret, ""), Region: server.Region,
	}))(t)
	opts.Region = server.Region
	check.NoError(t, s.client.MakeBucket(t.Context(), s.name, opts))
	s.config = Config{
		Endpoint: server.Endpoint, Region: server.Region, Bucket: s.name, Prefix: "dlq/", PathStyle: true,
		AccessKeyFile: secretFile(t, server.AccessKey), SecretKeyFile: secretFile(t, server.Secret),
	}
	s.bucket = &faulty{Bucket: check.Must(OpenBucket(s.config))(t)}
	application := s.application(at)
	s.store, s.objects = postgres.New(application), postgres.NewObjects(application)
	s.mover, s.rewrite = NewMover(s.objects, s.bucket), NewRewriter(s.objects, s.bucket)
	s.archive = NewArchive(s.store, s.objects, s.rewrite, s.bucket)
	return s
}

// application connects to the database with the rights of the role dlq_rw, which the programs have.
func (s *site) application(at string) *sqlx.DB {
	s.t.Helper()
	name := "tier_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	s.exec(`CREATE ROLE ` + name + ` LOGIN PASSWORD 'p' IN ROLE dlq_rw`)
	u := check.Must(url.Parse(at))(s.t)
	u.User = url.UserPassword(name, "p")
	db := check.Must(sqlx.Connect("postgres", u.String()))(s.t)
	s.t.Cleanup(func() {
		_ = db.Close()
		postgrestest.AsAdmin(s.t, `DROP ROLE `+name)
	})
	return db
}

func secretFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	check.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func (s *site) exec(query string, args ...any) {
	s.t.Helper()
	postgrestest.Exec(s.t, s.db, query, args...)
}

func (s *site) number(query string, args ...any) int {
	s.t.Helper()
	return postgrestest.All[int](s.t, s.db, query, args...)[0]
}

// archived inserts n archived messages of a topic, which were archived daysAgo days ago. Each has a record with
// headers, the column payload and one attempt; some have no key or no value. Their times of creation are a minute
// apart.
func (s *site) archived(topic string, n, daysAgo int) {
	s.t.Helper()
	s.exec(`INSERT INTO dlq.topics (name) VALUES ($1) ON CONFLICT DO NOTHING`, topic+".dlq")
	s.exec(`WITH made AS (
		INSERT INTO dlq.dlq_messages_archive (original_topic, error_message, status, retry_count, created_at, updated_at, last_retry_at, archived_at,
			payload, dlq_topic_id, dlq_incarnation_id, dlq_partition, dlq_offset, dlq_timestamp, attempt_no, outcome, dialect, defect)
		SELECT $1::text, 'error ' || n, 'RESOLVED', 1, now() - interval '40 days' - n * interval '1 minute' - $3::int * interval '1 day',
			now() - interval '31 days', now() - interval '39 days', date_trunc('day', now(), 'UTC') - $3 * interval '1 day' + n * interval '1 millisecond',
			jsonb_build_object('n', n), (SELECT id FROM dlq.topics WHERE name = $1::text || '.dlq'), 1, 0, n, now() - interval '40 days', 1, 'published', 'spring', NULL
		FROM generate_series(1, $2::int) n
		RETURNING id, dlq_offset AS n
	), bytes AS (
		INSERT INTO dlq.records (message_id, key, value, headers)
		SELECT id, CASE WHEN n % 3 = 0 THEN NULL WHEN n % 3 = 1 THEN '' ELSE convert_to('key ' || n, 'UTF8') END,
			CASE WHEN n % 5 = 0 THEN NULL ELSE convert_to('{"n": ' || n || '}', 'UTF8') END, '\x02016104010203016200'::bytea FROM made
	)
	INSERT INTO dlq.attempts (message_id, attempt_no, attempt_id, retry_count, actor, started_at, ended_at, from_status, to_status, target_topic, verdict)
	SELECT id, 1, gen_random_uuid(), 1, 'ada', now() - interval '39 days', now() - interval '39 days', 'PENDING', 'RESOLVED', $1::text, 'acknowledged' FROM made`,
		topic, n, daysAgo)
}

// archiveAgain archives all live messages.
func (s *site) archiveAgain() {
	s.t.Helper()
	s.exec(`UPDATE dlq.dlq_messages SET status = 'DEAD', updated_at = now() - interval '31 days'`)
	s.exec(`CALL dlq.archive_old_dlq_messages()`)
}

// all returns the messages of the archive as a list shows them.
func (s *site) all(f entity.Filter) []entity.Message {
	s.t.Helper()
	return check.Must(s.archive.Search(s.t.Context(), repository.SearchQuery{Filter: f, Archived: true, Limit: 10_000}))(s.t).Messages
}

func (s *site) move() int64 {
	s.t.Helper()
	return check.Must(s.mover.Move(s.t.Context()))(s.t)
}

// keys returns the keys of all versions of all objects in the bucket.
func (s *site) keys() (keys []string) {
	s.t.Helper()
	for o := range s.client.ListObjects(s.t.Context(), s.name, minio.ListObjectsOptions{Recursive: true, WithVersions: true}) {
		check.NoError(s.t, o.Err)
		keys = append(keys, o.Key)
	}
	return keys
}

// inOnePlace checks by counts that each message of the archive is in the database or in one object, and that there are
// as many messages as wanted. Each object of the bucket must be in the manifest or wait to be deleted.
func (s *site) inOnePlace(want int) {
	s.t.Helper()
	check.Same(s.t, s.number(`SELECT count(*) FROM dlq.archive_ids WHERE object_id IS NULL`), s.number(`SELECT count(*) FROM dlq.dlq_messages_archive`), "ids in the database")
	check.Same(s.t, s.number(`SELECT count(*) FROM dlq.archive_ids WHERE object_id IS NOT NULL`),
		s.number(`SELECT coalesce(sum(messages - hidden), 0) FROM dlq.archive_objects`), "ids in objects")
	check.Same(s.t, s.number(`SELECT coalesce(sum(messages - hidden), 0) FROM dlq.archive_objects`),
		s.number(`SELECT coalesce(sum(messages), 0) FROM dlq.archive_object_topics`), "messages by topics")
	ids := check.Each(s.all(entity.Filter{}), func(m entity.Message) uuid.UUID { return m.ID })
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
	check.Same(s.t, len(slices.Compact(ids)), want, "messages of the archive")
	manifest := postgrestest.All[string](s.t, s.db, `SELECT object_key FROM dlq.archive_objects ORDER BY 1`)
	keys := s.keys()
	for _, key := range manifest {
		check.True(s.t, slices.Contains(keys, key), "the object %s of the manifest does not exist", key)
	}
	for _, key := range keys {
		known := slices.Contains(manifest, key) || s.number(`SELECT count(*) FROM dlq.archive_deletions WHERE object_key = $1`, key) == 1
		check.True(s.t, known, "the object %s is neither in the manifest nor to be deleted", key)
	}
}

var errFault = fmt.Errorf("a fault of the test: %w", entity.ErrUnavailable)
