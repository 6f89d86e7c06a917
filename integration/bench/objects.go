package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/dlq-manager/dlq-manager/integration/stack"
)

// objects measures the archive's second tier: the archiver moves a day of archived messages to an object store, another
// program reads the files, and a redrive in two processes restores all messages. Number and contents of the messages
// must be the same at each step.
func objects(ctx context.Context, s *side) []figure {
	n := s.opts.count(recordsToMove)
	server := must(stack.StartS3(ctx))
	defer func() { check(server.Stop()) }()
	bucket := must(minio.New(strings.TrimPrefix(server.Endpoint, "http://"), &minio.Options{
		Creds: credentials.NewStaticV4(server.AccessKey, server.Secret, ""), Region: server.Region,
	}))
	check(bucket.MakeBucket(ctx, "bench", minio.MakeBucketOptions{Region: server.Region}))
	d := s.database(ctx, "objects", s.id)
	defer s.drop(ctx, d)
	d.useS3(server)
	d.fillArchive(ctx, n)
	before := d.contents(ctx, "dlq.archived_messages")
	expect("messages in the archive", before.Messages, int64(n))
	s.say("moving %s messages", thousands(n))
	moved := timed(func() int {
		output(ctx, "", filepath.Join(s.programs, "archiver"), "--config", d.config)
		return n
	})
	expect("archived messages left in the database", d.number(ctx, `SELECT count(*) FROM dlq.dlq_messages_archive`), 0)
	s.say("reading the files with DuckDB")
	expectSame("in the files", contentsOfFiles(ctx, server.Objects()), before)
	var restored section
	s.with(ctx, "api", d, func(program) {
		s.with(ctx, "api", d, func(api program) { // both work on the redrive
			s.say("restoring %s messages", thousands(n))
			restored = api.timed(func() int {
				api.restoreAll(ctx, n)
				return n
			})
		})
	})
	expectSame("after they were restored", d.contents(ctx, "dlq.messages"), before)
	expect("messages left in the archive", d.number(ctx, `SELECT count(*) FROM dlq.archive_ids`), 0)
	figures := append([]figure{moved.rate("moved to the object store")}, moved.processors("moved to the object store", "postgres")...)
	figures = append(figures, restored.rate("restored from the object store"))
	figures = append(figures, restored.processors("restored from the object store", "postgres", "api")...)
	return append(figures, restored.resident("restored from the object store, memory of the API"))
}

// useS3 makes the programs that use this database keep closed days of the archive in an object store.
func (d *database) useS3(server *stack.S3) {
	paths := map[string]string{"access": server.AccessKey, "secret": server.Secret}
	for name, content := range paths {
		paths[name] = d.config + "." + name
		check(os.WriteFile(paths[name], []byte(content), 0o600))
	}
	settings := must(os.ReadFile(d.config))
	settings = fmt.Appendf(settings, "archive:\n  store: s3\n  s3: {endpoint: %q, region: %q, bucket: bench, path_style: true, access_key_file: %q, secret_key_file: %q}\n",
		server.Endpoint, server.Region, paths["access"], paths["secret"])
	check(os.WriteFile(d.config, settings, 0o600))
}

// movedTopic is the original topic of all messages that fillArchive inserts.
const movedTopic = "objects.events.v1"

// fillArchive inserts messages of 1 KB that were archived two days ago, and their records.
func (d *database) fillArchive(ctx context.Context, rows int) {
	var steps []string
	for from := 1; from <= rows; from += fillStep {
		text := fmt.Sprintf(fillRows, from, min(from+fillStep-1, rows), rows, 1, archiveDays, "objects", "'DEAD'", 28)
		text = strings.Replace(text, "INSERT INTO dlq.dlq_messages (", "INSERT INTO dlq.dlq_messages_archive (archived_at, ", 1)
		text = strings.Replace(text, "lpad((n % 12)::text, 2, '0')", "''", 1)
		text = strings.Replace(text, "SELECT (", "SELECT now() - interval '2 days', (", 1)
		steps = append(steps, "WITH made AS ("+text+` RETURNING id, payload)
			INSERT INTO dlq.records (message_id, key, value) SELECT id, 'key', convert_to(payload::text, 'UTF8') FROM made`)
	}
	d.parallel(ctx, 2, steps)
	d.settle(ctx)
}

// contents is the number of messages, and a checksum of their contents that does not depend on their order.
type contents struct{ Messages, Sum int64 }

// sumOfContents is the checksum in SQL. Its parameters are created_at in microseconds, the note of the payload, and the
// integer of the first hexadecimal digits of a digest.
const sumOfContents = `SELECT count(*) AS messages, sum(%[3]s) AS sum FROM (
	SELECT md5(concat_ws('|', id, original_topic, error_message, %[1]s, %[2]s, md5(key), md5(value))) AS digest FROM %[4]s) d`

func (d *database) contents(ctx context.Context, table string) (c contents) {
	query := fmt.Sprintf(sumOfContents, "(extract(epoch FROM created_at) * 1000000)::bigint", "payload ->> 'note'",
		"('x' || substr(digest, 1, 8))::bit(32)::bigint", table)
	check(d.QueryRowContext(ctx, query).Scan(&c.Messages, &c.Sum))
	return c
}

// contentsOfFiles reads all Parquet files below a folder with DuckDB.
func contentsOfFiles(ctx context.Context, folder string) (c contents) {
	query := fmt.Sprintf(sumOfContents, "epoch_us(created_at)", "payload ->> '$.note'",
		"CAST(concat('0x', substr(digest, 1, 8)) AS BIGINT)", "read_parquet('"+folder+"/bench/**/*.parquet')")
	cmd := must(stack.DuckDB(ctx, query))
	cmd.Stderr = os.Stderr
	check(json.Unmarshal(must(cmd.Output()), &c))
	return c
}

func expectSame(where string, got, want contents) {
	expect("messages "+where, got.Messages, want.Messages)
	expect("checksum of the messages "+where, got.Sum, want.Sum)
}

// restoreAll restores all archived messages by one redrive.
func (p program) restoreAll(ctx context.Context, n int) {
	body := must(json.Marshal(map[string]any{"archived": true, "action": "restore", "filter": map[string]any{"topic": movedTopic}, "reason": "benchmark"}))
	res, err := p.open(ctx, http.MethodPost, "/api/v1/redrives", bytes.NewReader(body))
	check(err)
	defer res.Body.Close()
	var redrive struct {
		ID        string
		State     string
		Succeeded int
	}
	check(json.NewDecoder(res.Body).Decode(&redrive))
	path := "/api/v1/redrives/" + redrive.ID
	await(ctx, 2*time.Hour, time.Second, "the redrive", func() bool {
		p.call(ctx, http.MethodGet, path, &redrive)
		return redrive.State == "finished" || redrive.State == "cancelled"
	})
	expect("restored messages", int64(redrive.Succeeded), int64(n))
}
