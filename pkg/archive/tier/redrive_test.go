package tier

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/minio/minio-go/v7"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// works are the two ways to change many archived messages.
var works = map[string]func(*Archive) func(*testing.T, repository.ArchivedWork) error{
	"Restoring": func(a *Archive) func(*testing.T, repository.ArchivedWork) error {
		return func(t *testing.T, w repository.ArchivedWork) error { return a.RestoreEach(t.Context(), w) }
	},
	"Erasing": func(a *Archive) func(*testing.T, repository.ArchivedWork) error {
		return func(t *testing.T, w repository.ArchivedWork) error { return a.EraseEach(t.Context(), w) }
	},
}

// tried collects what was reported of each message.
type tried map[uuid.UUID]error

// work returns the work on the messages, whose results t collects.
func (r tried) work(t *testing.T, messages []entity.Message) repository.ArchivedWork {
	return repository.ArchivedWork{
		IDs: check.Each(messages, id), Cause: entity.AuditInfo{Actor: "ada", Reason: "asked"},
		Done: func(id uuid.UUID, err error) {
			_, again := r[id]
			check.True(t, !again, "message %s is reported twice: %v and %v", id, r[id], err)
			r[id] = err
		},
	}
}

// failed returns the number of messages that were tried with an error of this kind.
func (r tried) failed(kind error) (n int) {
	for _, err := range r {
		if err != nil && errors.Is(err, kind) {
			n++
		}
	}
	return n
}

func TestArchive_ChangesEach(t *testing.T) {
	t.Parallel()
	for name, work := range works {
		each := func(promise string, test func(t *testing.T, s *site, do func(*testing.T, repository.ArchivedWork) error)) {
			postgrestest.Parallel(t, name+"/"+promise, func(t *testing.T) {
				s := newSite(t, minio.MakeBucketOptions{})
				test(t, s, work(s.archive))
			})
		}

		// A compaction or an erasure may replace an object while its messages are changed one after the other.
		each("ReadsAReplacedObjectOnce", func(t *testing.T, s *site, do func(*testing.T, repository.ArchivedWork) error) {
			s.archived("orders", 20, 2)
			s.move()
			all := s.all(entity.Filter{})
			other := NewArchive(s.store, s.objects, s.rewrite, s.bucket.Bucket)
			reads, replaced := 0, false
			s.bucket.before = func(operation, _ string) error {
				if operation == "read" {
					reads++
				}
				if operation == "read" && !replaced {
					replaced = true
					check.Must(other.Restore(t.Context(), all[0].ID, entity.AuditInfo{Actor: "ada"}))(t)
					s.clean()
					reads = 1 // the rewriter reads too
				}
				return nil
			}
			got := tried{}
			check.NoError(t, do(t, got.work(t, all[1:])))
			check.Same(t, len(got), 19, "messages that were tried")
			check.Same(t, got.failed(entity.ErrNotFound), 0, "messages that were not found")
			check.True(t, reads <= 2+3, "%d reads, want two of the messages' objects, and at most three to write the object again", reads)
		})

		each("AMissingObjectIsReportedForItsMessages", func(t *testing.T, s *site, do func(*testing.T, repository.ArchivedWork) error) {
			s.archived("orders", 20, 2)
			s.archived("orders", 5, 0)
			s.move()
			all := s.all(entity.Filter{})
			reads := 0
			s.bucket.before = func(operation, _ string) error {
				if operation == "read" {
					reads++
				}
				return nil
			}
			check.NoError(t, s.client.RemoveObject(t.Context(), s.name, s.keys()[0], minio.RemoveObjectOptions{}))
			got := tried{}
			check.NoError(t, do(t, got.work(t, all)))
			check.Same(t, len(got), 25, "messages that were tried")
			check.Same(t, got.failed(repository.ErrObject), 20, "messages whose object is missing")
			check.True(t, reads <= maxReplaced+1, "%d reads, want at most one for each try", reads)
		})

		each("AnObjectThatCannotBeDecodedIsReportedAndTheOthersGoOn", func(t *testing.T, s *site, do func(*testing.T, repository.ArchivedWork) error) {
			s.archived("orders", 20, 2)
			s.move()
			s.archived("orders", 20, 3)
			s.move()
			all := s.all(entity.Filter{})
			s.damage(t)
			got := tried{}
			check.NoError(t, do(t, got.work(t, all)))
			check.Same(t, len(got), 40, "messages that were tried")
			check.Same(t, got.failed(repository.ErrObject), 20, "messages whose object is damaged")
		})

		each("AnotherBucketEndsTheWork", func(t *testing.T, s *site, do func(*testing.T, repository.ArchivedWork) error) {
			s.archived("orders", 20, 2)
			s.move()
			all := s.all(entity.Filter{})
			s.exec(`UPDATE dlq.archive_objects SET bucket = 'elsewhere'`)
			got := tried{}
			err := do(t, got.work(t, all))
			check.Is(t, err, repository.ErrObject, name)
			check.Says(t, err, "is in the bucket elsewhere, but archive.s3.bucket is "+s.name, "the work")
			check.Same(t, len(got), 0, "messages that were given up")
			one := check.Err(s.archive.Restore(t.Context(), all[0].ID, entity.AuditInfo{Actor: "ada"}))
			check.Is(t, one, repository.ErrObject, "restoring one message")
			check.Says(t, one, "is in the bucket elsewhere", "restoring one message")
		})

		each("BeforeEndsTheWork", func(t *testing.T, s *site, do func(*testing.T, repository.ArchivedWork) error) {
			s.archived("orders", 10, 2)
			s.move()
			s.archived("orders", 10, 0)
			got, calls, over := tried{}, 0, errors.New("the lease is over")
			w := got.work(t, s.all(entity.Filter{}))
			w.Before = func() error {
				if calls++; calls > 13 {
					return over
				}
				return nil
			}
			check.Is(t, do(t, w), over, name)
			check.Same(t, len(got), 13, "messages that were tried")
			check.Same(t, len(s.all(entity.Filter{})), 7, "messages in the archive")
		})
	}
}

// An object may turn out to be damaged after some of its messages were restored.
func TestArchive_ReportsADamagedObjectOnlyForTheRest(t *testing.T) {
	t.Parallel()
	s := newSite(t, minio.MakeBucketOptions{})
	s.archived("orders", 5, 2)
	s.move()
	all := s.all(entity.Filter{})
	s.damage(t)
	objects := check.Must(s.objects.Objects(t.Context(), repository.ObjectQuery{}))(t)
	got := tried{}
	m := &many{ArchivedWork: got.work(t, all), tried: map[uuid.UUID]bool{all[1].ID: true, all[3].ID: true}}
	check.NoError(t, s.archive.eachIn(t.Context(), m, &objects[0], m.IDs, false))
	check.Same(t, len(got), 3, "messages that were reported")
	check.Same(t, got.failed(repository.ErrObject), 3, "messages whose object is damaged")
}

// damage replaces the oldest object by bytes that are no Parquet file, with their checksum in the manifest.
func (s *site) damage(t *testing.T) {
	t.Helper()
	key := postgrestest.All[string](t, s.db, `SELECT object_key FROM dlq.archive_objects ORDER BY day LIMIT 1`)[0]
	content := bytes.Repeat([]byte("x"), s.number(`SELECT bytes FROM dlq.archive_objects WHERE object_key = $1`, key))
	sum := sha256.Sum256(content)
	s.exec(`UPDATE dlq.archive_objects SET sha256 = $2 WHERE object_key = $1`, key, sum[:])
	check.NoError(t, s.bucket.Bucket.Put(t.Context(), key, content))
}
