package tier

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/minio/minio-go/v7"

	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(victimVariable); text != "" {
		beVictim(text)
		return
	}
	stacktest.Main(m)
}

// victimVariable is the environment variable that makes the test binary a victim: a process that moves or cleans
// objects until the test kills it.
const victimVariable = "DLQ_TIER_TEST_VICTIM"

// victim says what the process does, and at which step it waits to be killed.
type victim struct {
	Database string
	Bucket   Config
	Work     string // move or clean
	Step     string
}

// beVictim does the work of a victim. When it reaches the victim's step, it prints a line, and then waits for ever to
// be killed.
func beVictim(text string) {
	var v victim
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		panic(err)
	}
	db, err := sqlx.Open("postgres", v.Database)
	if err != nil {
		panic(err)
	}
	b, err := OpenBucket(v.Bucket)
	if err != nil {
		panic(err)
	}
	at := func(step string) {
		if step == v.Step {
			fmt.Println("here")
			select {}
		}
	}
	steps := &steps{postgres.NewObjects(db), at}
	bucket := &faulty{Bucket: b, before: func(operation, _ string) error {
		at(operation)
		return nil
	}}
	if v.Work == "move" {
		_, err = NewMover(steps, bucket).Move(context.Background())
	} else {
		_, err = NewRewriter(steps, bucket).Clean(context.Background())
	}
	fmt.Println("ended", err)
}

// steps names each step of the work to the function in its field at: before and after each change of the manifest, and
// between the deletion of an object and the statement that stores it.
type steps struct {
	*postgres.Objects
	at func(step string)
}

func (s *steps) AddObject(ctx context.Context, o repository.ArchiveObject, rows []repository.ArchivedRow) (int64, error) {
	s.at("before the manifest")
	n, err := s.Objects.AddObject(ctx, o, rows)
	s.at("after the manifest")
	return n, err
}

func (s *steps) ReplaceObject(
	ctx context.Context, id uuid.UUID, old string, o *repository.ArchiveObject, removed []uuid.UUID,
) (bool, error) {
	s.at("before the manifest")
	ok, err := s.Objects.ReplaceObject(ctx, id, old, o, removed)
	s.at("after the manifest")
	return ok, err
}

func (s *steps) EndDeletion(ctx context.Context, key string, retained time.Time) error {
	s.at("deleted")
	return s.Objects.EndDeletion(ctx, key, retained)
}

// kill does the work in another process, and kills that process with SIGKILL when it has reached the step.
func (s *site) kill(url, work, step string) {
	s.t.Helper()
	text := check.Must(json.Marshal(victim{url, s.config, work, step}))(s.t)
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), victimVariable+"="+string(text))
	out := check.Must(cmd.StdoutPipe())(s.t)
	check.NoError(s.t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	check.Require(s.t, err == nil && line == "here\n", "the process says %q and %v, want that it has reached %q", line, err, step)
	check.NoError(s.t, cmd.Process.Kill())
	_, _ = io.Copy(io.Discard, out)
	_ = cmd.Wait()
}

// anHourLater makes objects that were begun and never entered the manifest old enough for clean to delete them.
func (s *site) anHourLater() {
	s.exec(`UPDATE dlq.archive_deletions SET created_at = created_at - interval '61 minutes'`)
}

func (s *site) clean() int64 {
	s.t.Helper()
	return check.Must(s.rewrite.Clean(s.t.Context()))(s.t)
}

// wantOnlyTheManifest checks that the bucket has as many objects as the manifest, and that no object waits to be
// deleted.
func (s *site) wantOnlyTheManifest() {
	s.t.Helper()
	check.Same(s.t, len(s.keys()), s.number(`SELECT count(*) FROM dlq.archive_objects`), "objects of the bucket")
	check.Same(s.t, s.number(`SELECT count(*) FROM dlq.archive_deletions`), 0, "objects to delete")
}

// kills returns how often a test kills a process at each step in turn: once, or 20 times if DLQ_TEST_LONG=1.
func kills() int {
	if os.Getenv("DLQ_TEST_LONG") == "1" {
		return 20
	}
	return 1
}

func TestMover_SurvivesSIGKILL(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"put", "read", "before the manifest", "after the manifest"} {
		postgrestest.Parallel(t, step, func(t *testing.T) {
			url := postgrestest.URL(t)
			s := newSiteOn(t, url, minio.MakeBucketOptions{})
			days := kills() + 1 // a process that is killed after the manifest has moved a day
			for day := range days {
				s.archived("orders", 30, day+1)
			}
			n := 30 * days
			before := s.all(entity.Filter{})
			for range kills() {
				s.kill(url, "move", step)
				s.inOnePlace(n)
				check.Same(t, s.all(entity.Filter{}), before, "the archive after the kill")
			}
			s.move()
			s.anHourLater()
			s.clean()
			check.Same(t, s.number(`SELECT count(*) FROM dlq.dlq_messages_archive`), 0, "rows that did not move")
			s.inOnePlace(n)
			s.wantOnlyTheManifest()
			check.Same(t, s.all(entity.Filter{}), before, "the archive at the end")
		})
	}
}

func TestRewriter_SurvivesSIGKILL(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"read", "put", "before the manifest", "after the manifest", "delete", "deleted"} {
		postgrestest.Parallel(t, step, func(t *testing.T) {
			url := postgrestest.URL(t)
			s := newSiteOn(t, url, minio.MakeBucketOptions{})
			check.NoError(t, s.client.EnableVersioning(t.Context(), s.name))
			s.archived("orders", 30, 2)
			s.move()
			left := s.all(entity.Filter{})
			for range kills() {
				check.Must(s.archive.Restore(t.Context(), left[7].ID, entity.AuditInfo{Actor: "ada"}))(t)
				left = append(left[:7:7], left[8:]...)
				s.kill(url, "clean", step)
				s.inOnePlace(len(left))
				check.Same(t, s.all(entity.Filter{}), left, "the archive after the kill")
				s.anHourLater()
				s.clean()
				s.inOnePlace(len(left))
				s.wantOnlyTheManifest()
				check.Same(t, s.number(`SELECT count(*) FROM dlq.archive_hidden`), 0, "hidden messages")
				check.Same(t, s.number(`SELECT sum(messages) FROM dlq.archive_objects`), len(left), "rows in objects")
				check.Same(t, s.all(entity.Filter{}), left, "the archive at the end")
			}
		})
	}
}
