package integration_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// TestArchiveTier: the archiver moves a whole day of archived messages to an object store. After that, the API lists
// and exports the archive as before, and messages can be restored and erased. When the configuration no longer contains
// the object store, the API answers 503 to requests for objects, and the archiver ends with an error.
func TestArchiveTier(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	_, err := s.db.Exec(`WITH made AS (
		INSERT INTO dlq.dlq_messages_archive (original_topic, error_message, status, created_at, updated_at, archived_at, payload)
		SELECT 'orders', 'error ' || n, 'DEAD', now() - n * interval '1 hour', now() - interval '31 days', now() - interval '2 days', jsonb_build_object('n', n)
		FROM generate_series(1, 20) n RETURNING id, payload
	) INSERT INTO dlq.records (message_id, key, value) SELECT id, 'key', convert_to(payload::text, 'UTF8') FROM made`)
	check.NoError(t, err)
	api := s.startReady("api")
	read := func(from *process) (answers []string) {
		for _, path := range []string{
			"/api/v1/archive?limit=7&count=exact", "/api/v1/archive?topic=orders&sort=created_at&count=exact", "/api/v1/export?source=archive",
		} {
			answers = append(answers, string(from.call(http.MethodGet, path, http.StatusOK, nil)))
		}
		return answers
	}
	eventually(t, "the messages have an error group", func() bool {
		var without int
		check.NoError(t, s.db.Get(&without, `SELECT count(*) FROM dlq.dlq_messages_archive WHERE group_id IS NULL`))
		return without == 0
	})
	before := read(api)
	api.stop()

	bucket := s.useS3()
	out := s.must("archiver")
	check.True(t, strings.Contains(out, `"stored_in_objects":20`), "the archiver does not say that it moved 20 messages:\n%s", out)
	var rows int
	check.NoError(t, s.db.Get(&rows, `SELECT count(*) FROM dlq.dlq_messages_archive`))
	check.Same(t, rows, 0, "rows in the database")
	api = s.startReady("api")
	for i, answer := range read(api) {
		// The cursors in the answers are left out of the comparison, because equal answers may contain different
		// cursors.
		check.Same(t, withoutCursor(answer), withoutCursor(before[i]), "answer %d", i)
	}
	refused := string(api.call(http.MethodGet, "/api/v1/archive?status=DEAD", http.StatusBadRequest, nil))
	check.True(t, strings.Contains(refused, `"field":"status"`), "the answer does not name the field: %s", refused)

	var ids []uuid.UUID
	check.NoError(t, s.db.Select(&ids, `SELECT id FROM dlq.archive_ids ORDER BY id`))
	one := "/api/v1/archive/" + ids[0].String()
	value := string(api.call(http.MethodGet, one+"/payload", http.StatusOK, nil))
	check.True(t, strings.HasPrefix(value, `{"n": `), "the payload is %s", value)
	status, _ := api.try(http.MethodPost, one+"/restore", []byte(`{"reason":"again"}`))
	check.Same(t, status, http.StatusOK, "status of the restore")
	restored := string(api.call(http.MethodGet, "/api/v1/dlq/messages/"+ids[0].String()+"/payload", http.StatusOK, nil))
	check.Same(t, restored, value, "the payload of the restored message")
	status, answer := api.try(http.MethodDelete, "/api/v1/archive/"+ids[1].String(), []byte(`{"reason":"request of the customer"}`))
	check.True(t, status == http.StatusOK && strings.Contains(string(answer), `"pending":false`), "the erasure answers %d %s", status, answer)
	api.call(http.MethodGet, "/api/v1/archive/"+ids[1].String(), http.StatusNotFound, nil)
	s.must("archiver")
	objects := 0
	for o := range bucket.ListObjects(t.Context(), s.prefix, minio.ListObjectsOptions{Recursive: true}) {
		check.NoError(t, o.Err)
		objects++
	}
	check.Same(t, objects, 1, "objects of the bucket")
	list := string(api.call(http.MethodGet, "/api/v1/archive?count=exact&limit=1", http.StatusOK, nil))
	check.True(t, strings.Contains(list, `"messages":18,"exact":true`), "the list is %s", list)

	api.stop()
	api = s.startReady("api", "DLQ_ARCHIVE_STORE=postgres")
	for _, path := range []string{"/api/v1/archive", "/api/v1/archive/" + ids[2].String()} {
		answer := string(api.call(http.MethodGet, path, http.StatusServiceUnavailable, nil))
		check.True(t, strings.Contains(answer, "archive.store of the API is postgres"), "without the store, %s answers %s", path, answer)
	}
	api.call(http.MethodGet, "/api/v1/messages", http.StatusOK, nil)
	api.call(http.MethodGet, "/api/v1/archive/"+ids[1].String(), http.StatusNotFound, nil)

	cmd := exec.CommandContext(t.Context(), filepath.Join(binaries, "archiver"), "--config", s.config)
	cmd.Env = append(os.Environ(), "DLQ_ARCHIVE_STORE=postgres")
	text, err := cmd.CombinedOutput()
	check.True(t, err != nil && strings.Contains(string(text), "archive.store is postgres"), "without the store the archiver ends with %v: %s", err, text)
}

// useS3 creates a bucket with the system's prefix as its name, and adds it to the configuration.
func (s *system) useS3() *minio.Client {
	s.t.Helper()
	server := stacktest.S3(s.t)
	client, err := minio.New(strings.TrimPrefix(server.Endpoint, "http://"), &minio.Options{
		Creds: credentials.NewStaticV4(server.AccessKey, server.Secret, ""), Region: server.Region,
	})
	check.NoError(s.t, err)
	check.NoError(s.t, client.MakeBucket(s.t.Context(), s.prefix, minio.MakeBucketOptions{Region: server.Region}))
	dir := s.t.TempDir()
	for name, content := range map[string]string{"access": server.AccessKey, "secret": server.Secret} {
		check.NoError(s.t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	file, err := os.OpenFile(s.config, os.O_APPEND|os.O_WRONLY, 0)
	check.NoError(s.t, err)
	defer func() { _ = file.Close() }()
	_, err = fmt.Fprintf(file, `
archive:
  store: s3
  s3: {endpoint: %q, region: %q, bucket: %q, path_style: true, access_key_file: %q, secret_key_file: %q}
`, server.Endpoint, server.Region, s.prefix, filepath.Join(dir, "access"), filepath.Join(dir, "secret"))
	check.NoError(s.t, err)
	return client
}

// withoutCursor removes the cursor and what follows it from an answer, because equal answers may contain different
// cursors.
func withoutCursor(answer string) string {
	before, _, _ := strings.Cut(answer, `"next_cursor"`)
	return before
}
