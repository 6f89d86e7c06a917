package tier

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/minio/minio-go/v7"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/migrate"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

func TestArchive(t *testing.T) {
	t.Parallel()

	postgrestest.Parallel(t, "ShowsMessagesOfObjectsAsThoseOfTheDatabase", func(t *testing.T) {
		s := newSite(t, minio.MakeBucketOptions{})
		s.archived("orders", 40, 3)
		s.archived("payments", 40, 2)
		before := s.all(entity.Filter{})
		check.Len(t, before, 80, "messages before")
		check.Same(t, s.move(), 80, "moved")
		check.Same(t, s.number(`SELECT count(*) FROM dlq.dlq_messages_archive`), 0, "rows")
		check.Same(t, s.number(`SELECT count(*) FROM dlq.records`), 0, "records")
		check.Same(t, s.number(`SELECT count(*) FROM dlq.archive_objects`), 2, "objects")
		check.Same(t, s.all(entity.Filter{}), before, "the list")
		for _, m := range before {
			got := check.Must(s.archive.GetArchived(t.Context(), m.ID, -1))(t)
			check.Same(t, got, m, "the message")
		}
		s.inOnePlace(80)
	})

	// The ids of these messages are random, so each step of an export reads the whole object.
	postgrestest.Parallel(t, "ExportsInFewSteps", func(t *testing.T) {
		s := newSite(t, minio.MakeBucketOptions{})
		s.archived("orders", 8100, 1)
		s.move()
		reads := 0
		s.bucket.before = func(string, string) error {
			reads++
			return nil
		}
		n := 0
		check.NoError(t, s.archive.Export(t.Context(), repository.ExportQuery{Archived: true, Limit: 10_000}, func(*entity.Message) error {
			n++
			return nil
		}))
		check.Same(t, n, 8100, "messages")
		// The end and two row groups are read for the entries, and again for each step: of 100, 400, 1600 and 6000 messages.
		const want = 3 * (1 + 4)
		check.True(t, reads > 0 && reads <= want, "the export sends %d requests to the store, want at most %d", reads, want)
	})

	postgrestest.Parallel(t, "ShowsListsInBothOrdersAndPages", func(t *testing.T) {
		s := newSite(t, minio.MakeBucketOptions{})
		s.archived("orders", 25, 3)
		s.archived("payments", 25, 3) // at the same times as the messages of orders, so that the lists of both objects overlap
		s.archived("orders", 25, 2)
		s.archived("orders", 25, 0) // today: not closed
		asc := repository.Sort{Ascending: true}
		query := func(f entity.Filter, sort repository.Sort, after repository.Cursor, limit int) []entity.Message {
			return check.Must(s.archive.Search(t.Context(), repository.SearchQuery{Filter: f, Archived: true, Sort: sort, After: after, Limit: limit}))(t).Messages
		}
		patterns := check.Must(entity.ParseTopicPatterns("topics", "pay*"))(t)
		middle := s.all(entity.Filter{})[50].CreatedAt
		filters := []entity.Filter{
			{},
			{Topic: "orders"},
			{Topic: "orders.dlq"},
			{Topic: "none"},
			{Topics: patterns},
			{Visible: &patterns},
			{CreatedAfter: middle},
			{CreatedBefore: middle},
			{Topic: "orders", CreatedAfter: middle.Add(-time.Hour), CreatedBefore: middle},
			{MessageIDs: []uuid.UUID{s.all(entity.Filter{})[60].ID}},
		}
		type answers struct {
			down, up []entity.Message
			count    repository.MatchCount
			exported []uuid.UUID
		}
		ask := func(f entity.Filter) (a answers) {
			a.down, a.up = query(f, repository.Sort{}, repository.Cursor{}, 1000), query(f, asc, repository.Cursor{}, 1000)
			a.count = check.Must(s.archive.CountMatching(t.Context(), repository.CountQuery{Filter: f, Archived: true, How: repository.CountExact}))(t)
			check.NoError(t, s.archive.Export(t.Context(), repository.ExportQuery{Filter: f, Archived: true, Limit: 1000, MaxValue: -1}, func(m *entity.Message) error {
				a.exported = append(a.exported, m.ID)
				return nil
			}))
			return a
		}
		var before []answers
		for _, f := range filters {
			before = append(before, ask(f))
		}
		check.Same(t, s.move(), 75, "moved")
		for i, f := range filters {
			got := ask(f)
			check.Same(t, got, before[i], "the answers to %+v", f)
			var paged []entity.Message
			for after := (repository.Cursor{}); ; {
				page := query(f, repository.Sort{}, after, 7)
				if paged = append(paged, page...); len(page) < 7 {
					break
				}
				after = repository.Cursor{CreatedAt: page[6].CreatedAt, ID: page[6].ID}
			}
			check.Same(t, check.Each(paged, id), check.Each(before[i].down, id), "the pages of %+v", f)
		}
		s.inOnePlace(100)
	})

	postgrestest.Parallel(t, "RefusesOtherFilters", func(t *testing.T) {
		s := newSite(t, minio.MakeBucketOptions{})
		for _, f := range []entity.Filter{
			{Statuses: []entity.Status{entity.Dead}},
			{ErrorClass: "e"},
			{Group: uuid.New()},
			{Words: []string{"w"}},
			{Key: []byte("k")},
			{UnknownOrigin: true},
			{RetriedAfter: time.Unix(1, 0)},
		} {
			_, err := s.archive.Search(t.Context(), repository.SearchQuery{Filter: f, Archived: true, Limit: 1})
			check.Is(t, err, entity.ErrInvalid, "searching by %+v", f)
			_, err = s.archive.CountMatching(t.Context(), repository.CountQuery{Filter: f, Archived: true})
			check.Is(t, err, entity.ErrInvalid, "counting by %+v", f)
			err = s.archive.Export(t.Context(), repository.ExportQuery{Filter: f, Archived: true, Limit: 1}, nil)
			check.Is(t, err, entity.ErrInvalid, "exporting by %+v", f)
			_, err = s.archive.Search(t.Context(), repository.SearchQuery{Filter: entity.Filter{Statuses: []entity.Status{entity.Dead}}, Limit: 1})
			check.NoError(t, err)
		}
	})

	postgrestest.Parallel(t, "RestoresAMessageOfAnObject", func(t *testing.T) {
		s := newSite(t, minio.MakeBucketOptions{})
		s.archived("orders", 10, 2)
		untouched := s.all(entity.Filter{})
		whole := map[uuid.UUID]entity.Message{}
		for _, m := range untouched {
			whole[m.ID] = check.Must(s.archive.GetArchived(t.Context(), m.ID, -1))(t)
		}
		s.move()
		for i, m := range untouched {
			history := check.Must(s.store.History(t.Context(), m.ID))(t)
			check.Len(t, history, 1, "attempts")
			got := check.Must(s.archive.Restore(t.Context(), m.ID, entity.AuditInfo{Actor: "ada", Reason: "why"}))(t)
			check.Same(t, got.Status, entity.Pending, "status")
			live := check.Must(s.store.Get(t.Context(), m.ID, -1))(t)
			want := whole[m.ID]
			check.Same(t, live.Record, want.Record, "the record")
			check.Same(t, []any{live.Source, live.Origin, live.Failure, live.CreatedAt}, []any{want.Source, want.Origin, want.Failure, want.CreatedAt}, "the message")
			check.Same(t, check.Must(s.store.History(t.Context(), m.ID))(t), history, "history")
			_, err := s.archive.GetArchived(t.Context(), m.ID, -1)
			check.Is(t, err, entity.ErrNotFound, "the archived message")
			_, err = s.archive.Restore(t.Context(), m.ID, entity.AuditInfo{Actor: "ada"})
			check.Is(t, err, entity.ErrNotFound, "a second restore")
			check.Same(t, check.Each(s.all(entity.Filter{}), id), check.Each(untouched[i+1:], id), "the rest of the archive")
			s.inOnePlace(9 - i)
		}
		check.Same(t, s.number(`SELECT count(*) FROM dlq.audit WHERE action = 'restore' AND actor = 'ada' AND reason = 'why'`), 10, "audit entries")
		s.clean()
		check.Len(t, s.keys(), 0, "objects")
	})

	// The error group of an archived message may be purged. The message is then restored without an error group, and
	// the indexer finds its error group again.
	postgrestest.Parallel(t, "RestoresWithoutAnErrorGroupThatWasPurged", func(t *testing.T) {
		s := newSite(t, minio.MakeBucketOptions{})
		s.archived("orders", 2, 2)
		s.exec(`UPDATE dlq.dlq_messages_archive SET group_id = gen_random_uuid()`)
		kept := s.all(entity.Filter{})[1]
		s.exec(`INSERT INTO dlq.error_groups (id) VALUES ($1)`, kept.Group)
		s.move()
		for _, m := range s.all(entity.Filter{}) {
			want := uuid.Nil
			if m.ID == kept.ID {
				want = kept.Group
			}
			check.Same(t, check.Must(s.archive.Restore(t.Context(), m.ID, entity.AuditInfo{Actor: "ada"}))(t).Group, want, "the error group")
		}
	})

	postgrestest.Parallel(t, "RepeatsARestoreOfTheSameOperation", func(t *testing.T) {
		s := newSite(t, minio.MakeBucketOptions{})
		s.archived("orders", 2, 2)
		s.move()
		cause := entity.AuditInfo{Actor: "ada", Operation: uuid.New()}
		one := s.all(entity.Filter{})[0].ID
		for range 2 {
			check.Same(t, check.Must(s.archive.Restore(t.Context(), one, cause))(t).ID, one, "restored")
		}
		check.Same(t, s.number(`SELECT count(*) FROM dlq.audit`), 1, "audit entries")
	})

	postgrestest.Parallel(t, "ReadsPartsOfAValue", func(t *testing.T) {
		s := newSite(t, minio.MakeBucketOptions{})
		s.archived("orders", 1, 2)
		s.exec(`UPDATE dlq.records SET value = decode(repeat('00010203', 500000), 'hex')`)
		s.move()
		one := s.all(entity.Filter{})[0]
		check.Same(t, []any{one.Record.State, one.Record.Size}, []any{entity.ValueNotLoaded, int64(2_000_000)}, "a large value in a list")
		part := func(from, length int64) string {
			return string(check.Must(s.archive.ValuePart(t.Context(), repository.ValuePart{ID: one.ID, Archived: true, From: from, Length: length}))(t))
		}
		check.Same(t, []string{part(1, 3), part(1_999_998, 10), part(2_000_000, 10)}, []string{"\x01\x02\x03", "\x02\x03", ""}, "parts")
	})

	postgrestest.Parallel(t, "ShowsAMessageOnceThatMovesMeanwhile", func(t *testing.T) {
		s := newSite(t, minio.MakeBucketOptions{})
		for _, read := range []func(a *Archive) int{
			func(a *Archive) int {
				return len(check.Must(a.Search(t.Context(), repository.SearchQuery{Archived: true, Limit: 1000}))(t).Messages)
			},
			func(a *Archive) int {
				count := check.Must(a.CountMatching(t.Context(), repository.CountQuery{Archived: true, How: repository.CountExact}))(t)
				check.True(t, count.Exact, "the count is not exact")
				return int(count.Messages)
			},
			func(a *Archive) (n int) {
				check.NoError(t, a.Export(t.Context(), repository.ExportQuery{Archived: true, Limit: 1000}, func(*entity.Message) error {
					n++
					return nil
				}))
				return n
			},
		} {
			s.archived("orders", 10, 2)
			want := s.number(`SELECT count(*) FROM dlq.archive_ids`)
			moving := NewArchive(&movingDatabase{s.store, sync.OnceFunc(func() { s.move() })}, s.objects, s.rewrite, s.bucket)
			check.Same(t, read(moving), want, "messages")
			check.Same(t, s.number(`SELECT count(*) FROM dlq.dlq_messages_archive`), 0, "rows that did not move")
		}
	})

	postgrestest.Parallel(t, "NamesAnObjectThatIsMissing", func(t *testing.T) {
		s := newSite(t, minio.MakeBucketOptions{})
		s.archived("orders", 5, 2)
		one := s.all(entity.Filter{})[0]
		s.move()
		key := s.keys()[0]
		check.NoError(t, s.client.RemoveObject(t.Context(), s.name, key, minio.RemoveObjectOptions{}))
		cause := entity.AuditInfo{Actor: "ada", Reason: "asked"}
		for doing, err := range map[string]error{
			"reading":   check.Err(s.archive.GetArchived(t.Context(), one.ID, 0)),
			"restoring": check.Err(s.archive.Restore(t.Context(), one.ID, cause)),
			"erasing":   check.Err(s.archive.Erase(t.Context(), one.ID, cause)),
			"listing":   check.Err(s.archive.Search(t.Context(), repository.SearchQuery{Archived: true, Limit: 10})),
			"counting":  check.Err(s.archive.CountMatching(t.Context(), repository.CountQuery{Archived: true, Filter: entity.Filter{CreatedAfter: one.CreatedAt}})),
			"exporting": s.archive.Export(t.Context(), repository.ExportQuery{Archived: true, Limit: 10}, func(*entity.Message) error { return nil }),
		} {
			check.Is(t, err, repository.ErrObject, "%s", doing)
			check.Says(t, err, key+" of the archive does not exist", "%s", doing)
		}
		check.Same(t, s.number(`SELECT count(*) FROM dlq.archive_ids`), 5, "messages of the archive")
	})

	postgrestest.Parallel(t, "ReadsOnlyTheObjectsOfTheIDs", func(t *testing.T) {
		s := newSite(t, minio.MakeBucketOptions{})
		for day := range 6 {
			s.archived("orders", 3, day+1)
		}
		one := s.all(entity.Filter{})[0].ID
		s.move()
		read := map[string]bool{}
		s.bucket.before = func(_, key string) error {
			read[key] = true
			return nil
		}
		byID := entity.Filter{MessageIDs: []uuid.UUID{one, uuid.New()}}
		check.Len(t, s.all(byID), 1, "messages")
		count := check.Must(s.archive.CountMatching(t.Context(), repository.CountQuery{Filter: byID, Archived: true, How: repository.CountExact}))(t)
		check.Same(t, count.Messages, 1, "number of messages")
		check.Len(t, s.all(entity.Filter{MessageIDs: []uuid.UUID{uuid.New()}}), 0, "messages of another id")
		check.Same(t, len(read), 1, "objects that were read")
	})

	postgrestest.Parallel(t, "NeverRestoresAChangedByte", func(t *testing.T) {
		s := newSite(t, minio.MakeBucketOptions{})
		s.archived("orders", 4, 2)
		before := s.all(entity.Filter{})
		s.move()
		size := int64(s.number(`SELECT bytes FROM dlq.archive_objects`))
		for at := int64(0); at < size; at += max(1, size/100) {
			a := NewArchive(s.store, s.objects, s.rewrite, &flipped{s.bucket, at})
			_, err := a.Restore(t.Context(), before[0].ID, entity.AuditInfo{Actor: "ada"})
			check.Require(t, errors.Is(err, repository.ErrObject), "restoring with a changed byte %d of %d gives %v, want an error", at, size, err)
			check.Says(t, err, s.keys()[0]+" of the archive has", "restoring with a changed byte")
		}
		check.Same(t, s.all(entity.Filter{}), before, "the archive")
	})

	postgrestest.Parallel(t, "FindsReplacedObjectsAgain", func(t *testing.T) {
		s := newSite(t, minio.MakeBucketOptions{})
		s.archived("orders", 20, 2)
		s.move()
		before := s.all(entity.Filter{})
		other := NewArchive(s.store, s.objects, s.rewrite, s.bucket) // a second archive, whose cache is empty
		replaced := false
		s.bucket.before = func(operation, _ string) error {
			if operation == "read" && !replaced {
				replaced = true
				check.Must(s.archive.Restore(t.Context(), before[0].ID, entity.AuditInfo{Actor: "ada"}))(t)
				s.clean()
			}
			return nil
		}
		page := check.Must(other.Search(t.Context(), repository.SearchQuery{Archived: true, Limit: 100}))(t)
		check.Same(t, page.Messages, before[1:], "the list")
	})
}

// An API may have been started before the archiver got an object store, or with a wrong setting. It must then answer
// with an error, and not as if the messages in objects did not exist.
func TestUnconfigured(t *testing.T) {
	t.Parallel()
	cause := entity.AuditInfo{Actor: "ada", Reason: "asked"}
	s := newSite(t, minio.MakeBucketOptions{})
	s.archived("orders", 5, 2)
	s.archived("orders", 5, 0)
	u := NewUnconfigured(s.store, s.objects)
	lists := func() (errs []error) {
		_, err := u.Search(t.Context(), repository.SearchQuery{Archived: true, Limit: 100})
		_, err2 := u.CountMatching(t.Context(), repository.CountQuery{Archived: true})
		return []error{err, err2, u.Export(t.Context(), repository.ExportQuery{Archived: true, Limit: 100}, func(*entity.Message) error { return nil })}
	}
	for _, err := range lists() {
		check.NoError(t, err)
	}
	before := s.all(entity.Filter{})
	err := u.Export(t.Context(), repository.ExportQuery{Archived: true, Limit: 100}, func(m *entity.Message) error {
		if m.ID == before[0].ID {
			s.move()
		}
		return nil
	})
	check.Is(t, err, repository.ErrObject, "an export while messages move")
	for _, err := range lists() {
		check.Is(t, err, repository.ErrObject, "a list, a count or an export")
		check.Says(t, err, "archive.store", "a list, a count or an export")
	}
	check.NoError(t, check.Err(u.Search(t.Context(), repository.SearchQuery{Limit: 100})))
	inDatabase, inObject := before[0].ID, before[9].ID
	if s.number(`SELECT count(*) FROM dlq.dlq_messages_archive WHERE id = $1`, inDatabase) == 0 {
		inDatabase, inObject = inObject, inDatabase
	}
	check.NoError(t, check.Err(u.GetArchived(t.Context(), inDatabase, 0)))
	check.NoError(t, check.Err(u.ValuePart(t.Context(), repository.ValuePart{ID: inDatabase, Archived: true, Length: 1})))
	check.Is(t, check.Err(u.GetArchived(t.Context(), inObject, 0)), repository.ErrObject, "reading a message")
	check.Is(t, check.Err(u.ValuePart(t.Context(), repository.ValuePart{ID: inObject, Archived: true, Length: 1})), repository.ErrObject, "reading a value")
	check.Is(t, check.Err(u.Restore(t.Context(), inObject, cause)), repository.ErrObject, "restoring a message")
	check.Is(t, check.Err(u.Erase(t.Context(), inObject, cause)), repository.ErrObject, "erasing a message")
	check.Is(t, check.Err(u.GetArchived(t.Context(), uuid.New(), 0)), entity.ErrNotFound, "reading a message that does not exist")
	check.NoError(t, check.Err(u.Restore(t.Context(), inDatabase, cause)))
	s.inOnePlace(9)
}

// movingDatabase moves messages to objects in the middle of a read: after the database has answered a search or a
// count, or before an export passes a message on.
type movingDatabase struct {
	*postgres.Store
	move func()
}

func (d *movingDatabase) Search(ctx context.Context, q repository.SearchQuery) (repository.SearchPage, error) {
	defer d.move()
	return d.Store.Search(ctx, q)
}

func (d *movingDatabase) CountMatching(ctx context.Context, q repository.CountQuery) (repository.MatchCount, error) {
	defer d.move()
	return d.Store.CountMatching(ctx, q)
}

func (d *movingDatabase) Export(ctx context.Context, q repository.ExportQuery, yield func(*entity.Message) error) error {
	return d.Store.Export(ctx, q, func(m *entity.Message) error {
		d.move()
		return yield(m)
	})
}

func id(m entity.Message) uuid.UUID { return m.ID }

func TestMover(t *testing.T) {
	t.Parallel()

	postgrestest.Parallel(t, "LeavesRowsThatChangeMeanwhile", func(t *testing.T) {
		s := newSite(t, minio.MakeBucketOptions{})
		s.archived("orders", 10, 2)
		before := s.all(entity.Filter{})
		changed := false
		s.bucket.before = func(operation, _ string) error {
			if operation == "put" && !changed {
				changed = true
				s.exec(`UPDATE dlq.dlq_messages_archive SET outcome = 'returned' WHERE id = $1`, before[2].ID)
				check.Must(s.store.Restore(t.Context(), before[5].ID, entity.AuditInfo{Actor: "ada"}))(t)
			}
			return nil
		}
		check.Same(t, s.move(), 8, "moved")
		s.inOnePlace(9)
		check.Same(t, check.Must(s.archive.GetArchived(t.Context(), before[2].ID, 0))(t).Outcome, entity.Returned, "outcome")
		check.Same(t, s.move(), 1, "moved by the next run")
		s.inOnePlace(9)
		s.clean()
		s.wantOnlyTheManifest()
		check.Same(t, s.number(`SELECT sum(messages) FROM dlq.archive_objects`), 9, "rows in objects")
		check.Same(t, check.Must(s.archive.GetArchived(t.Context(), before[2].ID, 0))(t).Outcome, entity.Returned, "outcome")
	})

	postgrestest.Parallel(t, "LeavesRowsWhenTheStoreFails", func(t *testing.T) {
		s := newSite(t, minio.MakeBucketOptions{})
		s.archived("orders", 10, 2)
		s.archived("orders", 10, 1)
		before := s.all(entity.Filter{})
		for _, failing := range []string{"put", "read"} {
			s.bucket.before = func(operation, _ string) error {
				if operation == failing {
					return errFault
				}
				return nil
			}
			n, err := s.mover.Move(t.Context())
			check.True(t, n == 0 && errors.Is(err, errFault), "moved %d with %v, want an error", n, err)
			s.bucket.before = nil
			s.inOnePlace(20)
			check.Same(t, s.all(entity.Filter{}), before, "the archive")
		}
		s.anHourLater()
		s.clean()
		s.wantOnlyTheManifest()
	})

	postgrestest.Parallel(t, "ComparesWhatItReadsBack", func(t *testing.T) {
		s := newSite(t, minio.MakeBucketOptions{})
		s.archived("orders", 10, 2)
		_, err := NewMover(s.objects, &lying{s.bucket}).Move(t.Context())
		check.Says(t, err, "checksum", "moving to a store that changes a byte")
		check.Same(t, s.number(`SELECT count(*) FROM dlq.dlq_messages_archive`), 10, "rows")
	})

	postgrestest.Parallel(t, "AnObjectThatTakesTooLongDoesNotEnterTheManifest", func(t *testing.T) {
		s := newSite(t, minio.MakeBucketOptions{})
		s.archived("orders", 10, 2)
		slow := &steps{s.objects, func(step string) {
			if step == "before the manifest" {
				s.anHourLater()
				check.Same(t, s.clean(), 1, "deleted")
			}
		}}
		_, err := NewMover(slow, s.bucket).Move(t.Context())
		check.True(t, err != nil, "got no error, want one")
		s.inOnePlace(10)
		check.Same(t, s.number(`SELECT count(*) FROM dlq.dlq_messages_archive`), 10, "rows")
	})

	postgrestest.Parallel(t, "SplitsALargeDay", func(t *testing.T) {
		s := newSite(t, minio.MakeBucketOptions{})
		s.archived("orders", 9, 2)
		s.exec(`UPDATE dlq.records SET value = decode(repeat('00', 8000000), 'hex')`)
		check.Same(t, s.move(), 9, "moved")
		check.Same(t, s.number(`SELECT count(*) FROM dlq.archive_objects`), 2, "objects")
		s.inOnePlace(9)
	})

	postgrestest.Parallel(t, "GoesOnWithTheNextObject", func(t *testing.T) {
		s := newSite(t, minio.MakeBucketOptions{})
		s.archived("orders", 9, 2)
		s.exec(`UPDATE dlq.records SET value = decode(repeat('00', 8000000), 'hex')`)
		puts := 0
		s.bucket.before = func(operation, _ string) error {
			if operation == "put" {
				if puts++; puts == 1 {
					return errFault
				}
			}
			return nil
		}
		n, err := s.mover.Move(t.Context())
		check.Is(t, err, errFault, "the run")
		check.True(t, n > 0 && n < 9, "moved %d messages, want those of the second object", n)
		check.Same(t, s.number(`SELECT count(*) FROM dlq.dlq_messages_archive`), 9-int(n), "rows")
		s.bucket.before = nil
		check.Same(t, s.move(), 9-n, "moved by the next run")
		s.inOnePlace(9)
	})

	postgrestest.Parallel(t, "CountsTheBytesOfAttemptsAndEdits", func(t *testing.T) {
		s := newSite(t, minio.MakeBucketOptions{})
		s.archived("orders", 100, 2)
		s.exec(`INSERT INTO dlq.edits (message_id, attempt_id, set_value, value, set_key, set_headers, record_hash, created_at)
			SELECT message_id, attempt_id, true, convert_to(repeat('x', 200000), 'UTF8'), false, false, 1, now() FROM dlq.attempts`)
		s.exec(`UPDATE dlq.attempts SET error = repeat('y', 10000)`)
		day, _, err := s.objects.ClosedDay(t.Context(), time.Time{})
		check.NoError(t, err)
		picked := check.Must(s.objects.PickArchived(t.Context(), day, uuid.Nil, maxRows, maxBytes))(t)
		check.True(t, len(picked) < 100, "one object has all messages, and more than %d bytes", maxBytes)
		rows := check.Must(s.objects.LoadArchived(t.Context(), picked[:together(picked)]))(t)
		size := 0
		for i := range rows {
			size += len(rows[i].Attempts) + len(rows[i].Value)
		}
		check.True(t, len(rows) > 1 && size <= loadBytes, "one statement read %d rows with %d bytes; the limit is %d", len(rows), size, loadBytes)
		check.Same(t, s.move(), 100, "moved")
	})

	postgrestest.Parallel(t, "LeavesWhatAFileCannotHave", func(t *testing.T) {
		s := newSite(t, minio.MakeBucketOptions{})
		s.archived("orders", 5, 2)
		ids := check.Each(s.all(entity.Filter{}), id)
		s.exec(`UPDATE dlq.dlq_messages_archive SET updated_at = 'infinity' WHERE id = $1`, ids[0])
		s.exec(`UPDATE dlq.dlq_messages_archive SET claim_id = gen_random_uuid() WHERE id = $1`, ids[1])
		s.exec(`UPDATE dlq.records SET headers = '\x05' WHERE message_id = $1`, ids[2])
		check.Same(t, s.move(), 2, "moved")
		check.Same(t, s.number(`SELECT count(*) FROM dlq.dlq_messages_archive`), 3, "rows")
	})
}

// lying is an object store that changes a byte of every object that is written to it.
type lying struct{ Bucket }

func (b *lying) Put(ctx context.Context, key string, content []byte) error {
	content = append([]byte{}, content...)
	content[len(content)/2] ^= 1
	return b.Bucket.Put(ctx, key, content)
}

// flipped is an object store that changes a byte of every object that is read from it.
type flipped struct {
	Bucket
	at int64
}

func (f *flipped) Read(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	content, err := f.Bucket.Read(ctx, key, offset, length)
	if i := f.at - offset; err == nil && i >= 0 && i < int64(len(content)) {
		content[i] ^= 0x10
	}
	return content, err
}

func TestRewriter(t *testing.T) {
	t.Parallel()

	postgrestest.Parallel(t, "PurgesObjectsWhenAllTheirMessagesAreDue", func(t *testing.T) {
		s := newSite(t, minio.MakeBucketOptions{})
		s.archived("orders", 10, 12)
		s.archived("orders", 10, 5)
		s.move()
		check.Same(t, check.Must(s.rewrite.Purge(t.Context(), 13, 3))(t), 0, "purged too early")
		check.Same(t, check.Must(s.rewrite.Purge(t.Context(), 10, 3))(t), 10, "purged")
		s.inOnePlace(10)
		check.Same(t, s.number(`SELECT count(*) FROM dlq.attempts`), 10, "attempts")
		s.clean()
		s.wantOnlyTheManifest()
		check.Len(t, s.keys(), 1, "objects")
	})

	postgrestest.Parallel(t, "KeepsTryingToDeleteALockedObject", func(t *testing.T) {
		s := newSite(t, minio.MakeBucketOptions{ObjectLocking: true})
		mode, days, unit := minio.Compliance, uint(2), minio.Days
		check.NoError(t, s.client.SetBucketObjectLockConfig(t.Context(), s.name, &mode, &days, &unit))
		s.archived("orders", 10, 2)
		s.move()
		before := s.all(entity.Filter{})
		check.Must(s.archive.Restore(t.Context(), before[3].ID, entity.AuditInfo{Actor: "ada"}))(t)
		check.Same(t, s.clean(), 0, "deleted")
		s.inOnePlace(9)
		check.Same(t, s.number(`SELECT count(*) FROM dlq.archive_deletions WHERE retained_until > now() + interval '47 hours'`), 1, "locked objects")
		check.Len(t, s.keys(), 2, "objects")
		deletes := 0
		s.bucket.before = func(operation, _ string) error {
			if operation == "delete" {
				deletes++
			}
			return nil
		}
		s.clean()
		check.Same(t, deletes, 0, "deletions before the lock ends")
		s.exec(`UPDATE dlq.archive_deletions SET retained_until = now() - interval '1 second'`)
		s.clean()
		check.Same(t, deletes, 1, "deletions after the stored time")
	})

	postgrestest.Parallel(t, "KeepsTheObjectsOfAnotherBucket", func(t *testing.T) {
		url := postgrestest.URL(t)
		s := newSiteOn(t, url, minio.MakeBucketOptions{})
		s.archived("orders", 10, 2)
		s.move()
		s.bucket.before = func(operation, _ string) error {
			if operation == "delete" {
				return errFault
			}
			return nil
		}
		cause := entity.AuditInfo{Actor: "ada", Reason: "asked"}
		erased := check.Must(s.archive.Erase(t.Context(), s.all(entity.Filter{})[0].ID, cause))(t)
		check.True(t, erased.Pending, "the bytes are not pending")
		s.bucket.before = nil
		other := s.config
		other.Bucket = "b-" + uuid.NewString()
		check.NoError(t, s.client.MakeBucket(t.Context(), other.Bucket, minio.MakeBucketOptions{Region: other.Region}))
		moved := check.Must(OpenBucket(other))(t)
		rewrite := NewRewriter(s.objects, moved)
		_, err := rewrite.Clean(t.Context())
		check.Says(t, err, "1 objects to delete are in the bucket "+s.name, "cleaning with another bucket")
		_, err = NewArchive(s.store, s.objects, rewrite, moved).GetArchived(t.Context(), s.all(entity.Filter{})[0].ID, 0)
		check.Is(t, err, repository.ErrObject, "reading with another bucket")
		check.Says(t, err, "is in the bucket "+s.name, "reading with another bucket")
		check.Same(t, s.number(`SELECT count(*) FROM dlq.archive_deletions`), 1, "objects to delete")
		s.exec(`DELETE FROM dlq.archive_hidden`)
		s.exec(`DELETE FROM dlq.archive_objects`)
		err = migrate.Down(t.Context(), s.db.DB, migrate.All)
		check.Says(t, err, "objects to delete", "migrating down")
		s.clean()
		check.NoError(t, migrate.Down(t.Context(), s.db.DB, 1))
	})

	postgrestest.Parallel(t, "TwoAtOnceReplaceAnObjectOnce", func(t *testing.T) {
		s := newSite(t, minio.MakeBucketOptions{})
		s.archived("orders", 10, 2)
		s.move()
		before := s.all(entity.Filter{})
		check.Must(s.archive.Restore(t.Context(), before[3].ID, entity.AuditInfo{Actor: "ada"}))(t)
		second := false
		s.bucket.before = func(operation, _ string) error {
			if operation == "put" && !second {
				second = true
				check.Must(s.archive.Restore(t.Context(), before[4].ID, entity.AuditInfo{Actor: "ada"}))(t)
				s.clean()
			}
			return nil
		}
		s.clean()
		s.inOnePlace(8)
		s.anHourLater()
		s.clean()
		s.wantOnlyTheManifest()
		check.Same(t, s.number(`SELECT sum(messages) FROM dlq.archive_objects`), 8, "rows in objects")
	})
}

func TestArchive_Erase(t *testing.T) {
	t.Parallel()
	cause := entity.AuditInfo{Actor: "ada", Reason: "request of the customer"}

	postgrestest.Parallel(t, "LeavesNoBytesInAnyVersion", func(t *testing.T) {
		s := newSite(t, minio.MakeBucketOptions{})
		check.NoError(t, s.client.EnableVersioning(t.Context(), s.name))
		s.archived("orders", 10, 2)
		s.move()
		old := s.keys()
		before := s.all(entity.Filter{})
		one := before[4].ID
		s.exec(`INSERT INTO dlq.edits (message_id, attempt_id, set_value, value, set_key, set_headers, record_hash, created_at)
			SELECT message_id, attempt_id, true, 'secret', false, false, 1, now() FROM dlq.attempts WHERE message_id = $1`, one)
		s.exec(`INSERT INTO dlq.audit (at, action, kind, object_id, actor, last_error) VALUES (now(), 'attempt', 'message', $1, 'auto', 'secret')`, one)
		s.exec(`INSERT INTO dlq.idempotency_keys (principal, key, request, operation_id, owner, lease_expires_at, status, body, created_at)
			SELECT 'ada', k, '', gen_random_uuid(), gen_random_uuid(), now(), 200, convert_to('{"id":"' || k || '"}', 'UTF8'), now()
			FROM unnest($1::text[]) k`, "{"+one.String()+","+before[5].ID.String()+"}")
		check.Same(t, check.Must(s.archive.Erase(t.Context(), one, cause))(t), repository.Erased{}, "what is left")
		s.inOnePlace(9)
		s.wantOnlyTheManifest()
		check.True(t, len(s.keys()) == 1 && s.keys()[0] != old[0], "the old object %s is in the bucket: %v", old, s.keys())
		check.Same(t, s.number(`SELECT sum(messages) FROM dlq.archive_objects`), 9, "rows in objects")
		check.Same(t, s.number(`SELECT count(*) FROM dlq.attempts`), 9, "attempts")
		check.Same(t, s.number(`SELECT count(*) FROM dlq.edits`), 0, "edits")
		check.Same(t, s.number(`SELECT count(*) FROM dlq.idempotency_keys`), 1, "stored answers")
		check.Same(t, s.number(`SELECT count(*) FROM dlq.audit WHERE last_error IS NOT NULL`), 0, "error texts of the audit trail")
		check.Same(t, s.number(`SELECT count(*) FROM dlq.audit WHERE action = 'erase' AND object_id = $1 AND reason = 'request of the customer'`, one), 1, "audit entries")
		check.Is(t, check.Err(s.archive.Erase(t.Context(), one, cause)), entity.ErrNotFound, "a second erasure")
		stats := check.Must(s.objects.ObjectStats(t.Context()))(t)
		check.True(t, stats.Objects == 1 && stats.Messages == 9 && stats.Bytes > 0 && stats.WaitingSince.IsZero(), "got %+v, want one object and nothing to delete", stats)
	})

	postgrestest.Parallel(t, "SaysUntilWhenALockKeepsTheBytes", func(t *testing.T) {
		s := newSite(t, minio.MakeBucketOptions{ObjectLocking: true})
		mode, days, unit := minio.Compliance, uint(2), minio.Days
		check.NoError(t, s.client.SetBucketObjectLockConfig(t.Context(), s.name, &mode, &days, &unit))
		s.archived("orders", 2, 2)
		s.move()
		erased := check.Must(s.archive.Erase(t.Context(), s.all(entity.Filter{})[0].ID, cause))(t)
		check.True(t, !erased.Pending && erased.RetainedUntil.After(time.Now().Add(47*time.Hour)), "got %+v, want two days", erased)
		s.inOnePlace(1)
	})

	postgrestest.Parallel(t, "IsPendingWhileTheStoreFails", func(t *testing.T) {
		for _, failing := range []string{"put", "delete"} {
			s := newSite(t, minio.MakeBucketOptions{})
			s.archived("orders", 3, 2)
			s.move()
			s.bucket.before = func(operation, _ string) error {
				if operation == failing {
					return errFault
				}
				return nil
			}
			one := s.all(entity.Filter{})[0].ID
			check.Same(t, check.Must(s.archive.Erase(t.Context(), one, cause))(t), repository.Erased{Pending: true}, "what is left")
			check.Is(t, check.Err(s.archive.GetArchived(t.Context(), one, 0)), entity.ErrNotFound, "the message")
			s.inOnePlace(2)
			waiting := check.Must(s.objects.ObjectStats(t.Context()))(t).WaitingSince
			check.True(t, !waiting.IsZero(), "bytes wait to be deleted, but WaitingSince is zero")
			s.bucket.before = nil
			s.anHourLater()
			s.clean()
			s.inOnePlace(2)
			s.wantOnlyTheManifest()
			check.Same(t, s.number(`SELECT sum(messages) FROM dlq.archive_objects`), 2, "rows in objects")
		}
	})

	postgrestest.Parallel(t, "LeavesNoSearchDocument", func(t *testing.T) {
		s := newSite(t, minio.MakeBucketOptions{})
		s.archived("orders", 2, 2)
		before := s.all(entity.Filter{})
		s.move()
		// The indexer read the messages before they moved to an object, and stores their documents after the move. The
		// indexer then dies before it deletes these documents.
		s.exec(`SELECT dlq.create_document_partitions(ARRAY[$1::timestamptz])`, before[0].CreatedAt)
		for _, m := range before {
			s.exec(`INSERT INTO dlq.message_documents (message_id, created_at, version, text, terms) VALUES ($1, $2, 1, 'secret', '{}')`, m.ID, m.CreatedAt)
		}
		check.Must(s.archive.Erase(t.Context(), before[0].ID, cause))(t)
		check.Same(t, s.number(`SELECT count(*) FROM dlq.message_documents`), 1, "search documents")
		// This time the indexer does not die.
		check.NoError(t, s.store.StoreDocuments(t.Context(), 2, []entity.Document{{MessageID: before[1].ID, CreatedAt: before[1].CreatedAt, Text: "secret"}}))
		check.Same(t, s.number(`SELECT count(*) FROM dlq.message_documents`), 0, "search documents of messages in objects")
	})

	postgrestest.Parallel(t, "ErasesMessagesOfTheDatabase", func(t *testing.T) {
		s := newSite(t, minio.MakeBucketOptions{})
		s.archived("orders", 3, 0)
		one := s.all(entity.Filter{})[0].ID
		check.Same(t, check.Must(s.archive.Erase(t.Context(), one, cause))(t), repository.Erased{}, "what is left")
		s.inOnePlace(2)
		check.Same(t, s.number(`SELECT count(*) FROM dlq.records`), 2, "records")
	})

	postgrestest.Parallel(t, "ErasesAMessageThatWasArchivedTwice", func(t *testing.T) {
		s := newSite(t, minio.MakeBucketOptions{})
		s.archived("orders", 2, 2)
		s.move()
		one := s.all(entity.Filter{})[0].ID
		check.Must(s.archive.Restore(t.Context(), one, cause))(t) // after the restore, clean has not rewritten the message's object yet
		s.archiveAgain()
		check.Must(s.archive.Erase(t.Context(), one, cause))(t)
		s.inOnePlace(1)
		check.Same(t, s.number(`SELECT sum(messages) FROM dlq.archive_objects`), 1, "rows in objects")
	})

	postgrestest.Parallel(t, "NeverDeletesAnObjectOfTheManifest", func(t *testing.T) {
		s := newSite(t, minio.MakeBucketOptions{})
		check.NoError(t, s.client.EnableVersioning(t.Context(), s.name))
		s.archived("orders", 10, 2)
		s.move()
		one := s.all(entity.Filter{})[0].ID
		late := true
		s.bucket.before = func(operation, _ string) error {
			if operation == "read" && late && s.number(`SELECT count(*) FROM dlq.archive_hidden`) == 1 {
				late = false
				return errGone // a single answer 404, as object stores and proxies give when their reads lag behind
			}
			return nil
		}
		erased, err := s.archive.Erase(t.Context(), one, cause)
		check.True(t, erased.Pending && errors.Is(err, repository.ErrObject), "got %+v and %v, want pending and an error", erased, err)
		check.Says(t, err, s.keys()[0], "erasing a message of an object that seems to be missing")
		s.inOnePlace(9)

		check.NoError(t, s.client.RemoveObject(t.Context(), s.name, s.keys()[0], minio.RemoveObjectOptions{})) // only marks it
		_, err = s.rewrite.Clean(t.Context())
		check.Is(t, err, repository.ErrObject, "cleaning a marked object")
		check.Says(t, err, s.keys()[0], "cleaning a marked object")
		check.Len(t, s.keys(), 2, "versions and marks of the object")
	})

	postgrestest.Parallel(t, "KeepsTheVersionsOfAMarkedObject", func(t *testing.T) {
		s := newSite(t, minio.MakeBucketOptions{})
		check.NoError(t, s.client.EnableVersioning(t.Context(), s.name))
		s.archived("orders", 10, 2)
		s.move()
		one := s.all(entity.Filter{})[0].ID
		check.Must(s.archive.Restore(t.Context(), one, cause))(t)
		s.archiveAgain()
		key := s.keys()[0]
		check.NoError(t, s.client.RemoveObject(t.Context(), s.name, key, minio.RemoveObjectOptions{}))
		erased, err := s.archive.Erase(t.Context(), one, cause)
		check.True(t, erased.Pending, "the answer says that nothing is left")
		check.Says(t, err, key, "erasing a message of a marked object")
		check.Len(t, s.keys(), 2, "versions and marks of the object")
		check.True(t, !check.Must(s.objects.ObjectStats(t.Context()))(t).WaitingSince.IsZero(), "bytes wait to be deleted, but WaitingSince is zero")
	})

	postgrestest.Parallel(t, "SaysUntilWhenAnEarlierObjectIsLocked", func(t *testing.T) {
		s := newSite(t, minio.MakeBucketOptions{ObjectLocking: true})
		mode, days, unit := minio.Compliance, uint(2), minio.Days
		check.NoError(t, s.client.SetBucketObjectLockConfig(t.Context(), s.name, &mode, &days, &unit))
		s.archived("orders", 10, 2)
		s.move()
		one, other := s.all(entity.Filter{})[0].ID, s.all(entity.Filter{})[1].ID
		check.Must(s.archive.Restore(t.Context(), one, cause))(t)
		s.clean() // Object Lock forbids the deletion of the old object for two days
		s.archiveAgain()
		erased := check.Must(s.archive.Erase(t.Context(), one, cause))(t)
		check.Len(t, s.keys(), 2, "objects, the locked one included")
		check.True(t, !erased.Pending && erased.RetainedUntil.After(time.Now().Add(47*time.Hour)), "got %+v, want two days", erased)
		erased = check.Must(s.archive.Erase(t.Context(), other, cause))(t)
		check.Len(t, s.keys(), 3, "objects, the locked ones included")
		check.True(t, !erased.Pending && erased.RetainedUntil.After(time.Now().Add(47*time.Hour)), "got %+v, want two days", erased)
		s.exec(`UPDATE dlq.archive_deletions SET retained_until = now() - interval '1 second'`)
		third := check.Must(s.archive.Erase(t.Context(), s.all(entity.Filter{})[0].ID, cause))(t)
		check.True(t, third.RetainedUntil.After(time.Now().Add(47*time.Hour)), "got %+v, want two days: the store still refuses", third)
	})

	postgrestest.Parallel(t, "IsPendingWhileTheMoverHasTheBytes", func(t *testing.T) {
		s := newSite(t, minio.MakeBucketOptions{})
		s.archived("orders", 10, 2)
		one := s.all(entity.Filter{})[0].ID
		var erased repository.Erased
		s.bucket.before = func(operation, _ string) error {
			if operation == "read" { // the mover has written the object, and reads it back to compare it
				s.bucket.before = nil
				erased = check.Must(s.archive.Erase(t.Context(), one, cause))(t)
				return errFault
			}
			return nil
		}
		_, err := s.mover.Move(t.Context())
		check.Is(t, err, errFault, "moving")
		check.Len(t, s.keys(), 1, "objects")
		check.Same(t, erased, repository.Erased{Pending: true}, "what is left while the object has the bytes")
		check.True(t, !check.Must(s.objects.ObjectStats(t.Context()))(t).WaitingSince.IsZero(), "bytes wait to be deleted, but WaitingSince is zero")
		s.clean()
		check.Len(t, s.keys(), 0, "objects after the next run")
		s.wantOnlyTheManifest()
	})

	postgrestest.Parallel(t, "IsPendingWhileTheRewriterHasTheBytes", func(t *testing.T) {
		s := newSite(t, minio.MakeBucketOptions{})
		s.archived("orders", 10, 2)
		s.move()
		before := s.all(entity.Filter{})
		check.Must(s.archive.Restore(t.Context(), before[3].ID, cause))(t)
		s.bucket.before = func(operation, _ string) error {
			if operation == "put" {
				s.bucket.before = nil
				check.Same(t, check.Must(s.archive.Erase(t.Context(), before[4].ID, cause))(t), repository.Erased{Pending: true}, "what is left")
			}
			return nil
		}
		s.clean()
		s.wantOnlyTheManifest() // clean deleted the object that it had written, because that object still contained the erased message
		check.True(t, check.Must(s.objects.ObjectStats(t.Context()))(t).WaitingSince.IsZero(), "WaitingSince is not zero")
	})
}

// A replay may fail again, and come back as a dead letter, after its message has moved to an object.
func TestMover_KeepsReturnsRecognisable(t *testing.T) {
	t.Parallel()
	s := newSite(t, minio.MakeBucketOptions{})
	s.archived("orders", 3, 2)
	s.move()
	parent := s.all(entity.Filter{})[1]
	attempt := check.Must(s.store.History(t.Context(), parent.ID))(t)[0]
	ref := check.Must(s.store.OpenTopics(t.Context(), []repository.Topic{{Name: "orders.dlq", Incarnation: "x"}}))(t)[0]
	partition := repository.Partition{Incarnation: ref.Incarnation}
	check.Must(s.store.OpenPosition(t.Context(), []repository.Position{{Partition: partition}}))(t)
	m := entity.NewMessage("orders", "it failed again", time.Now())
	m.Source = entity.Source{TopicID: ref.TopicID, Incarnation: ref.Incarnation, Timestamp: m.CreatedAt}
	m.Return = &entity.Return{Parent: parent.ID, Attempt: attempt.ID}
	check.Must(s.store.Store(t.Context(), repository.Batch{
		Ranges: []repository.Range{{Partition: partition, To: 1}}, Messages: []entity.Message{m},
	}))(t)
	child := check.Must(s.store.Get(t.Context(), m.ID, 0))(t)
	check.Same(t, []any{child.Parent, child.RetryCount}, []any{parent.ID, 1}, "the child")
	check.Same(t, check.Must(s.archive.GetArchived(t.Context(), parent.ID, 0))(t).Outcome, entity.Returned, "the outcome of the message in the object")
	check.Same(t, s.all(entity.Filter{})[0].Outcome, entity.Published, "the outcome of another message")
}

// The ingester deletes the row of dlq.share_records of a message that no longer exists. The row of a restored message
// becomes due, so that the ingester reads the record again.
func TestMover_KeepsPointersOfShareGroups(t *testing.T) {
	t.Parallel()
	for _, moved := range []bool{false, true} {
		s := newSite(t, minio.MakeBucketOptions{})
		s.archived("orders", 2, 2)
		s.exec(`UPDATE dlq.dlq_messages_archive SET dialect = 'sharegroup', consumer_group = 'g'`)
		s.exec(`INSERT INTO dlq.share_records (message_id, share_group, topic, partition, position, digest, state)
			SELECT id, 'g', 'orders', 0, 7, '\x00', 'waiting' FROM dlq.dlq_messages_archive`)
		before := s.all(entity.Filter{})
		check.True(t, before[0].Share != nil, "the message has no share record before the move")
		if moved {
			check.Same(t, s.move(), 2, "moved")
		}
		check.Same(t, check.Must(s.store.ForgetPointers(t.Context(), 10))(t), 0, "rows forgotten by the ingester")
		check.Same(t, s.all(entity.Filter{}), before, "the archive")
		check.Must(s.archive.Restore(t.Context(), before[0].ID, entity.AuditInfo{Actor: "ada"}))(t)
		check.Same(t, s.number(`SELECT count(*) FROM dlq.dlq_messages m JOIN dlq.share_records s ON s.message_id = m.id
			WHERE s.state <> 'completed' AND s.due_at IS NOT NULL`), 1, "pointers of restored messages that are due")
		check.Must(s.archive.Erase(t.Context(), before[1].ID, entity.AuditInfo{Actor: "ada", Reason: "asked"}))(t)
		check.Same(t, check.Must(s.store.ForgetPointers(t.Context(), 10))(t), 1, "rows forgotten after an erasure")
	}
}
