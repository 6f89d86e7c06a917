package tier

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/archive/tier/internal/file"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Select returns the archived messages of a selection, the oldest first, or in the order of its ids. A condition that
// objects cannot be searched for, and a selection of more than limit messages, is an *entity.FieldError.
func (a *Archive) Select(ctx context.Context, s entity.Selection, limit int) ([]repository.ArchivedEntry, error) {
	// A message that moves to an object between the two reads is in both, and arranged drops one of them.
	entries, err := selectRows(ctx, a.db, s, limit)
	if err != nil {
		return nil, err
	}
	for try := 0; ; try++ {
		inObjects, err := a.selectInObjects(ctx, s, limit)
		if err == nil {
			return arranged(s, append(entries, inObjects...), limit)
		}
		if !errors.Is(err, errGone) || try == maxReplaced {
			return nil, fmt.Errorf("select messages in objects: %w", err)
		}
	}
}

// filterOf returns the filter of a selection with its ids as a condition.
func filterOf(s entity.Selection) entity.Filter {
	if len(s.IDs) > 0 {
		s.Filter.MessageIDs = s.IDs
	}
	return s.Filter
}

// selectRows selects messages of the database, in any order, and at most one more than limit.
func selectRows(ctx context.Context, db Database, s entity.Selection, limit int) (entries []repository.ArchivedEntry, err error) {
	if err := searchable("filter.", s.Filter, repository.Sort{}); err != nil {
		return nil, err
	}
	q := repository.ExportQuery{Filter: filterOf(s), Archived: true, Limit: limit + 1, Parts: &repository.RecordParts{}}
	err = db.Export(ctx, q, func(m *entity.Message) error {
		entries = append(entries, repository.ArchivedEntry{
			ID: m.ID, CreatedAt: repository.MicrosOf(m.CreatedAt), OriginalTopic: m.OriginalTopic,
		})
		return nil
	})
	return entries, err
}

// selectInObjects selects messages of objects, in any order. It stops after more than limit messages.
func (a *Archive) selectInObjects(ctx context.Context, s entity.Selection, limit int) (entries []repository.ArchivedEntry, err error) {
	l := newListing(filterOf(s))
	objects, err := a.objects(ctx, l)
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(objects) && len(entries) <= limit; i++ {
		err := a.eachMatch(ctx, l, &objects[i], func(e *file.Entry) {
			entries = append(entries, repository.ArchivedEntry{ID: e.ID, CreatedAt: e.CreatedAt, OriginalTopic: e.OriginalTopic})
		})
		if err != nil {
			return nil, err
		}
	}
	return entries, nil
}

// arranged returns entries in the order of the selection, each message once.
func arranged(s entity.Selection, entries []repository.ArchivedEntry, limit int) ([]repository.ArchivedEntry, error) {
	numbers := make(map[uuid.UUID]int, len(s.IDs))
	for i, id := range slices.Backward(s.IDs) {
		numbers[id] = i
	}
	slices.SortFunc(entries, func(a, b repository.ArchivedEntry) int {
		return cmp.Or(cmp.Compare(numbers[a.ID], numbers[b.ID]), cmp.Compare(a.CreatedAt, b.CreatedAt), bytes.Compare(a.ID[:], b.ID[:]))
	})
	entries = slices.CompactFunc(entries, func(a, b repository.ArchivedEntry) bool { return a.ID == b.ID })
	if len(entries) > limit {
		return nil, &entity.FieldError{Field: "filter", Reason: fmt.Sprintf(
			"selects more than %d archived messages, the most for one redrive: narrow it by topic or time", limit)}
	}
	return entries, nil
}

// RestoreEach restores messages, as Restore does it for one message. It reads each object once, except for messages
// whose object was replaced meanwhile. It calls done for
// each message that it has tried to restore, with nil, or with an error after which trying again is useless: a
// *entity.NotFoundError, a *repository.ObjectError, or the kind entity.ErrConflict. Any other error ends the work.
func (a *Archive) RestoreEach(ctx context.Context, ids []uuid.UUID, cause entity.AuditInfo, done func(uuid.UUID, error)) error {
	one := func(ctx context.Context, id uuid.UUID) error {
		_, err := a.Restore(ctx, id, cause)
		return err
	}
	return a.each(ctx, ids, done, one, func(ctx context.Context, object uuid.UUID, r *repository.ArchivedRow) error {
		_, err := a.catalog.RestoreRow(ctx, object, r, cause)
		return err
	})
}

// EraseEach erases messages, as Erase does it for one message. It writes each object again only once. It calls done as
// RestoreEach does.
func (a *Archive) EraseEach(ctx context.Context, ids []uuid.UUID, cause entity.AuditInfo, done func(uuid.UUID, error)) error {
	var erased []uuid.UUID
	noted := func(id uuid.UUID, err error) {
		if err == nil {
			erased = append(erased, id)
		}
		done(id, err)
	}
	err := a.each(ctx, ids, noted, func(ctx context.Context, id uuid.UUID) error { return a.eraseOne(ctx, id, cause) },
		func(ctx context.Context, object uuid.UUID, r *repository.ArchivedRow) error {
			return a.catalog.EraseRow(ctx, object, r, cause)
		})
	for _, id := range erased {
		// The first call for an object writes it again without any of the messages. When it cannot, the archiver does so.
		if left, failed := a.removeBytes(ctx, id); failed != nil || left.Pending {
			break
		}
	}
	return err
}

// each changes messages one after the other: those in objects with row, object by object, and the others with one.
func (a *Archive) each(
	ctx context.Context, ids []uuid.UUID, done func(uuid.UUID, error),
	one func(context.Context, uuid.UUID) error, row func(context.Context, uuid.UUID, *repository.ArchivedRow) error,
) error {
	objects, err := a.catalog.Objects(ctx, repository.ObjectQuery{MessageIDs: ids})
	if err != nil {
		return err
	}
	inObject, err := a.catalog.ObjectsOf(ctx, ids)
	if err != nil {
		return err
	}
	tried := make(map[uuid.UUID]bool, len(ids))
	report := func(id uuid.UUID, err error) error {
		if !final(err) {
			return err
		}
		tried[id] = true
		done(id, err)
		return nil
	}
	for i := range objects {
		if err := a.eachIn(ctx, &objects[i], inObject[objects[i].ID], row, report); err != nil {
			return err
		}
	}
	for _, id := range ids { // in the database, in an object that was replaced meanwhile, or not in the archive
		if tried[id] {
			continue
		}
		if err := report(id, one(ctx, id)); err != nil {
			return err
		}
	}
	return nil
}

// final reports whether an error of the change of one message says that trying again is useless. It does so for nil.
func final(err error) bool {
	var object *repository.ObjectError
	return err == nil || errors.Is(err, entity.ErrNotFound) || errors.Is(err, entity.ErrConflict) || errors.As(err, &object)
}

// eachIn changes the messages with the given ids in an object, which it compares with its checksum. A message that is
// not in the object any more is left for later.
func (a *Archive) eachIn(
	ctx context.Context, o *repository.ArchiveObject, ids []uuid.UUID,
	row func(context.Context, uuid.UUID, *repository.ArchivedRow) error, report func(uuid.UUID, error) error,
) error {
	if len(ids) == 0 {
		return nil
	}
	wanted := setOf(ids)
	err := a.open(ctx, o, openWhole, func(f *file.File) error {
		return f.Rows(wanted, func(r *repository.ArchivedRow) error {
			err := row(ctx, o.ID, r)
			if errors.Is(err, entity.ErrNotFound) {
				return nil
			}
			return report(r.ID, err)
		})
	})
	var object *repository.ObjectError
	switch {
	case errors.Is(err, errGone): // another object has replaced it, or it is missing
		return nil
	case errors.As(err, &object):
		for _, id := range ids {
			_ = report(id, object)
		}
		return nil
	}
	return err
}

func setOf(ids []uuid.UUID) map[uuid.UUID]bool {
	set := make(map[uuid.UUID]bool, len(ids))
	for _, id := range ids {
		set[id] = true
	}
	return set
}

// Select selects messages of the database. It returns an error when any archived message is in an object.
func (u *Unconfigured) Select(ctx context.Context, s entity.Selection, limit int) ([]repository.ArchivedEntry, error) {
	entries, err := selectRows(ctx, u.Database, s, limit)
	if err == nil {
		err = u.complete(ctx, true)
	}
	if err != nil {
		return nil, err
	}
	return arranged(s, entries, limit)
}

// RestoreEach restores messages of the database. A message in an object ends the work with an error.
func (u *Unconfigured) RestoreEach(ctx context.Context, ids []uuid.UUID, cause entity.AuditInfo, done func(uuid.UUID, error)) error {
	return u.each(ids, done, func(id uuid.UUID) error {
		_, err := u.Restore(ctx, id, cause)
		return err
	})
}

// EraseEach erases messages of the database. A message in an object ends the work with an error.
func (u *Unconfigured) EraseEach(ctx context.Context, ids []uuid.UUID, cause entity.AuditInfo, done func(uuid.UUID, error)) error {
	return u.each(ids, done, func(id uuid.UUID) error {
		_, err := u.Erase(ctx, id, cause)
		return err
	})
}

func (u *Unconfigured) each(ids []uuid.UUID, done func(uuid.UUID, error), one func(uuid.UUID) error) error {
	for _, id := range ids {
		err := one(id)
		if !final(err) {
			return err
		}
		done(id, err)
	}
	return nil
}
