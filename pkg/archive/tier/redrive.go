package tier

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/archive/tier/internal/file"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Select returns the archived messages of a selection, the oldest first, or in the order of its ids. A condition that
// objects cannot be searched for, and a selection of more than limit messages, is an *entity.FieldError.
func (a *Archive) Select(ctx context.Context, s entity.Selection, limit int) ([]repository.ArchivedEntry, error) {
	// A message that moves to an object between the two reads is in both, and arranged drops one of them.
	rows, err := selectRows(ctx, a.db, s, limit)
	if err != nil {
		return nil, err
	}
	for try := 0; ; try++ {
		entries, err := a.selectInObjects(ctx, s, limit, rows)
		if err == nil {
			return arranged(s, entries, limit)
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
	topics := topicNames{}
	err = db.Export(ctx, q, func(m *entity.Message) error {
		entries = append(entries, repository.ArchivedEntry{
			ID: m.ID, CreatedAt: repository.MicrosOf(m.CreatedAt), OriginalTopic: topics.shared(m.OriginalTopic),
		})
		return nil
	})
	return entries, err
}

// selectInObjects selects messages of objects, in any order. It stops after more than limit messages. It appends the
// entries to those of rows, so that a large selection is not copied.
func (a *Archive) selectInObjects(
	ctx context.Context, s entity.Selection, limit int, rows []repository.ArchivedEntry,
) (entries []repository.ArchivedEntry, err error) {
	l := newListing(filterOf(s))
	objects, err := a.objects(ctx, l)
	if err != nil {
		return nil, err
	}
	entries = rows
	topics := topicNames{}
	for i := 0; i < len(objects) && len(entries)-len(rows) <= limit; i++ {
		err := a.eachMatch(ctx, l, &objects[i], func(e *file.Entry) {
			entries = append(entries, repository.ArchivedEntry{
				ID: e.ID, CreatedAt: e.CreatedAt, OriginalTopic: topics.shared(e.OriginalTopic),
			})
		})
		if err != nil {
			return nil, err
		}
	}
	return entries, nil
}

// topicNames has one copy of each topic's name, because the messages of a large selection have few topics.
type topicNames map[string]string

// shared returns the copy of a name.
func (t topicNames) shared(name string) string {
	first, ok := t[name]
	if !ok {
		first = strings.Clone(name)
		t[first] = first
	}
	return first
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

// RestoreEach restores messages, as Restore does it for one message.
func (a *Archive) RestoreEach(ctx context.Context, w repository.ArchivedWork) error {
	one := func(ctx context.Context, id uuid.UUID) error {
		_, err := a.RestoreHeld(ctx, id, w.Hold, w.Cause)
		return err
	}
	return a.each(ctx, w, one, func(ctx context.Context, object uuid.UUID, r *repository.ArchivedRow) error {
		_, err := a.catalog.RestoreRow(ctx, object, r, w.Hold, w.Cause)
		return err
	})
}

// Hold makes restored messages due for automatic retry when the time hold is over.
func (a *Archive) Hold(ctx context.Context, ids []uuid.UUID, hold time.Duration) error {
	return a.db.Hold(ctx, ids, hold)
}

// EraseEach erases messages, as Erase does it for one message. It writes each object again only once.
func (a *Archive) EraseEach(ctx context.Context, w repository.ArchivedWork) error {
	var erased []uuid.UUID
	done := w.Done
	w.Done = func(id uuid.UUID, err error) {
		if err == nil {
			erased = append(erased, id)
		}
		done(id, err)
	}
	err := a.each(ctx, w, func(ctx context.Context, id uuid.UUID) error { return a.eraseOne(ctx, id, w.Cause) },
		func(ctx context.Context, object uuid.UUID, r *repository.ArchivedRow) error {
			return a.catalog.EraseRow(ctx, object, r, w.Cause)
		})
	for _, id := range erased {
		// The first call for an object writes it again without any of the messages. When it cannot, the archiver does so.
		if left, failed := a.removeBytes(ctx, id); failed != nil || left.Pending {
			break
		}
	}
	return err
}

// many changes archived messages one after the other.
type many struct {
	repository.ArchivedWork
	row   func(ctx context.Context, object uuid.UUID, r *repository.ArchivedRow) error // changes a message of an object
	tried map[uuid.UUID]bool
}

// change changes a message with do, unless the work must end. It returns the errors that end the work.
func (m *many) change(id uuid.UUID, do func() error) error {
	if m.Before != nil {
		if err := m.Before(); err != nil {
			return err
		}
	}
	return m.report(id, do())
}

func (m *many) report(id uuid.UUID, err error) error {
	if !final(err) {
		return err
	}
	m.tried[id] = true
	m.Done(id, err)
	return nil
}

// untried returns those of the ids whose message was not tried yet.
func (m *many) untried(ids []uuid.UUID) (left []uuid.UUID) {
	for _, id := range ids {
		if !m.tried[id] {
			left = append(left, id)
		}
	}
	return left
}

// each changes messages one after the other: those in objects object by object, and the others with one. It reads each
// object once. When an object was replaced meanwhile, each reads the object that has replaced it.
func (a *Archive) each(
	ctx context.Context, w repository.ArchivedWork, one func(context.Context, uuid.UUID) error,
	row func(context.Context, uuid.UUID, *repository.ArchivedRow) error,
) error {
	m := &many{ArchivedWork: w, row: row, tried: make(map[uuid.UUID]bool, len(w.IDs))}
	left := w.IDs
	for try := 0; try <= maxReplaced && len(left) > 0; try++ {
		objects, err := a.catalog.Objects(ctx, repository.ObjectQuery{MessageIDs: left})
		if err != nil {
			return err
		}
		if len(objects) == 0 {
			break
		}
		inObject, err := a.catalog.ObjectsOf(ctx, left)
		if err != nil {
			return err
		}
		for i := range objects {
			if err := a.eachIn(ctx, m, &objects[i], inObject[objects[i].ID], try == maxReplaced); err != nil {
				return err
			}
		}
		left = m.untried(left)
	}
	for _, id := range left { // in the database, or not in the archive
		if err := m.change(id, func() error { return one(ctx, id) }); err != nil {
			return err
		}
	}
	return nil
}

// final reports whether an error of the change of one message says that trying again is useless. It does so for nil.
func final(err error) bool {
	var object *repository.ObjectError
	return err == nil || errors.Is(err, entity.ErrNotFound) || errors.Is(err, entity.ErrConflict) || errors.Is(err, entity.ErrRefused) ||
		errors.As(err, &object)
}

// eachIn changes the messages with the given ids in an object, which it compares with its checksum. Messages of an
// object that was replaced, and messages that have left their object, are left for later. At the last try, an object that
// does not exist was not replaced: it is missing, and a message that is not in its object is missing there.
func (a *Archive) eachIn(ctx context.Context, m *many, o *repository.ArchiveObject, ids []uuid.UUID, last bool) error {
	if len(ids) == 0 {
		return nil
	}
	absent := setOf(ids)
	err := a.wholeRows(ctx, o, setOf(ids), func(r *repository.ArchivedRow) error {
		delete(absent, r.ID)
		err := m.change(r.ID, func() error {
			err := m.row(ctx, o.ID, r)
			if errors.Is(err, entity.ErrNotFound) {
				err = errLeft
			}
			return err
		})
		if errors.Is(err, errLeft) {
			return nil
		}
		return err
	})
	var object *repository.ObjectError
	switch {
	case errors.Is(err, errGone) && !last:
		return nil
	case errors.As(err, &object):
		for _, id := range m.untried(ids) {
			_ = m.report(id, object)
		}
		return nil
	}
	if last && err == nil {
		for id := range absent {
			_ = m.report(id, lacks(o, id))
		}
	}
	return err
}

// errLeft says that a message has left the object from which it was read.
var errLeft = errors.New("the message has left the object")

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
func (u *Unconfigured) RestoreEach(ctx context.Context, w repository.ArchivedWork) error {
	return u.each(w, func(id uuid.UUID) error {
		_, err := u.RestoreHeld(ctx, id, w.Hold, w.Cause)
		return err
	})
}

// EraseEach erases messages of the database. A message in an object ends the work with an error.
func (u *Unconfigured) EraseEach(ctx context.Context, w repository.ArchivedWork) error {
	return u.each(w, func(id uuid.UUID) error {
		_, err := u.Erase(ctx, id, w.Cause)
		return err
	})
}

func (u *Unconfigured) each(w repository.ArchivedWork, one func(uuid.UUID) error) error {
	m := &many{ArchivedWork: w, tried: make(map[uuid.UUID]bool, len(w.IDs))}
	for _, id := range w.IDs {
		if err := m.change(id, func() error { return one(id) }); err != nil {
			return err
		}
	}
	return nil
}
