package tier

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/archive/tier/internal/file"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Database reads and changes the archived messages that are not in objects.
type Database interface {
	Search(ctx context.Context, q repository.SearchQuery) (repository.SearchPage, error)
	CountMatching(ctx context.Context, q repository.CountQuery) (repository.MatchCount, error)
	Export(ctx context.Context, q repository.ExportQuery, yield func(*entity.Message) error) error
	GetArchived(ctx context.Context, id uuid.UUID, maxValue int64) (entity.Message, error)
	ValuePart(ctx context.Context, p repository.ValuePart) ([]byte, error)
	// Restore is RestoreHeld without a hold. A type that embeds a Database beside a store needs the method here, because it
	// would otherwise get that of the store, which knows no objects.
	Restore(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) (entity.Message, error)
	// RestoreHeld restores a message, which is due for automatic retry when the time hold is over.
	RestoreHeld(ctx context.Context, id uuid.UUID, hold time.Duration, cause entity.AuditInfo) (entity.Message, error)
	Hold(ctx context.Context, ids []uuid.UUID, hold time.Duration) error
	Erase(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) (repository.Erased, error)
}

// Catalog finds objects in the manifest, and converts rows that were read from objects to messages.
type Catalog interface {
	// FindObject returns the object of an archived message. ok is false when the message is in the database, or not in
	// the archive.
	FindObject(ctx context.Context, id uuid.UUID) (o repository.ArchiveObject, ok bool, err error)
	// ObjectsOf returns, by the id of an object, those of the messages that are in this object.
	ObjectsOf(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID][]uuid.UUID, error)
	// Objects returns the objects that may contain messages which match the query, the object with the newest message
	// first.
	Objects(ctx context.Context, q repository.ObjectQuery) ([]repository.ArchiveObject, error)
	// Show converts rows of objects to messages, within the given limits.
	Show(ctx context.Context, rows []repository.ArchivedRow, limits repository.ShownLimits) ([]entity.Message, error)
	// RestoreRow inserts the message of a row, which was read from an object, into the live table. It hides the message
	// in the object. The message is due for automatic retry when the time hold is over.
	RestoreRow(ctx context.Context, object uuid.UUID, r *repository.ArchivedRow, hold time.Duration, cause entity.AuditInfo) (entity.Message, error)
	// EraseRow deletes everything that the database still has of the message of a row, and hides the message in its
	// object.
	EraseRow(ctx context.Context, object uuid.UUID, r *repository.ArchivedRow, cause entity.AuditInfo) error
	// HidingObjects returns the objects that still contain the bytes of a message that has left the archive.
	HidingObjects(ctx context.Context, id uuid.UUID) ([]repository.ArchiveObject, error)
}

// Archive reads, restores and erases archived messages, in the database and in objects. It passes queries for live
// messages on to the database. It is safe for concurrent use.
type Archive struct {
	db      Database
	catalog Catalog
	bucket  Bucket
	rewrite *Rewriter
	entries *entryCache
	slots   chan struct{} // limits the reads of objects: contains an element for each object that is being read
	erasing chan struct{} // contains an element while an erasure writes an object again
}

// maxReads is how many objects are read at once; further reads wait. Writing an object again for an erasure does not
// count. A restore or an erasure reads the whole object into memory, other reads one or two row groups at a time.
const maxReads = 4

// NewArchive returns an Archive.
func NewArchive(db Database, c Catalog, w *Rewriter, b Bucket) *Archive {
	return &Archive{
		db: db, catalog: c, bucket: b, rewrite: w, entries: newEntryCache(cachedObjects), slots: make(chan struct{}, maxReads),
		erasing: make(chan struct{}, 1),
	}
}

// opener opens an object for reading.
type opener func(context.Context, Bucket, *repository.ArchiveObject) (*file.File, error)

// rowReader calls do for each row of an object whose id is in wanted.
type rowReader func(ctx context.Context, o *repository.ArchiveObject, wanted map[uuid.UUID]bool, do func(*repository.ArchivedRow) error) error

// withRow finds the object that contains a message, reads the message's row from it, and calls do with both. When the
// object is replaced during the read, withRow reads the new object.
func (a *Archive) withRow(
	ctx context.Context, id uuid.UUID, read rowReader, do func(*repository.ArchiveObject, *repository.ArchivedRow) error,
) error {
	for try := 0; ; try++ {
		o, ok, err := a.catalog.FindObject(ctx, id)
		if err != nil {
			return err
		}
		if !ok {
			return &entity.NotFoundError{ID: id}
		}
		row, err := rowOf(ctx, &o, id, read)
		if err == nil {
			return do(&o, row)
		}
		if !errors.Is(err, errGone) || try == maxReplaced {
			return fmt.Errorf("read message %s: %w", id, err)
		}
	}
}

// maxReplaced is how often a read begins again because an object was replaced meanwhile, and how often a count begins
// again because messages moved. After that, the read fails, and the count is not exact.
const maxReplaced = 3

func rowOf(ctx context.Context, o *repository.ArchiveObject, id uuid.UUID, read rowReader) (*repository.ArchivedRow, error) {
	var row *repository.ArchivedRow
	err := read(ctx, o, map[uuid.UUID]bool{id: true}, func(r *repository.ArchivedRow) error {
		row = r
		return nil
	})
	if err == nil && row == nil {
		err = lacks(o, id)
	}
	return row, err
}

// lacks returns the error about an object without a message that it contains according to the manifest.
func lacks(o *repository.ArchiveObject, id uuid.UUID) error {
	return &repository.ObjectError{Key: o.Key, Reason: "lacks message " + id.String()}
}

// GetArchived implements repository.Archive.
func (a *Archive) GetArchived(ctx context.Context, id uuid.UUID, maxValue int64) (m entity.Message, err error) {
	if m, err = a.db.GetArchived(ctx, id, maxValue); !errors.Is(err, entity.ErrNotFound) {
		return m, err
	}
	limits := repository.ShownLimits{Value: maxValue, Key: repository.KeyLimit, Headers: -1}
	err = a.withRow(ctx, id, a.rows, func(_ *repository.ArchiveObject, r *repository.ArchivedRow) error {
		found, err := a.catalog.Show(ctx, []repository.ArchivedRow{*r}, limits)
		if err != nil || len(found) != 1 {
			return fmt.Errorf("%d messages: %w", len(found), err)
		}
		m = found[0]
		return repository.ReserveMemory(ctx, repository.SizeInMemory(&m))
	})
	return m, err
}

// ValuePart implements repository.Reader.
func (a *Archive) ValuePart(ctx context.Context, p repository.ValuePart) (value []byte, err error) {
	if value, err = a.db.ValuePart(ctx, p); !p.Archived || !errors.Is(err, entity.ErrNotFound) {
		return value, err
	}
	err = a.withRow(ctx, p.ID, a.rows, func(_ *repository.ArchiveObject, r *repository.ArchivedRow) error {
		size := int64(len(r.Value))
		from := min(p.From, size)
		value = r.Value[from:min(from+p.Length, size)]
		return nil
	})
	return value, err
}

// Restore implements repository.Archive. If the message is in an object, Restore reads the whole object and compares
// its checksum before it restores the message.
func (a *Archive) Restore(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) (m entity.Message, err error) {
	return a.RestoreHeld(ctx, id, 0, cause)
}

// RestoreHeld restores a message as Restore does. The message is due for automatic retry when the time hold is over.
func (a *Archive) RestoreHeld(ctx context.Context, id uuid.UUID, hold time.Duration, cause entity.AuditInfo) (m entity.Message, err error) {
	if m, err = a.db.RestoreHeld(ctx, id, hold, cause); !errors.Is(err, entity.ErrNotFound) {
		return m, err
	}
	err = a.withRow(ctx, id, a.wholeRows, func(o *repository.ArchiveObject, r *repository.ArchivedRow) (err error) {
		m, err = a.catalog.RestoreRow(ctx, o.ID, r, hold, cause)
		return err
	})
	return m, err
}

// Erase implements repository.Archive. It replaces the object of the message by an object without the message. When
// that fails, the message is erased nevertheless, and the archiver replaces the object later.
func (a *Archive) Erase(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) (erased repository.Erased, err error) {
	if err = a.eraseOne(ctx, id, cause); err != nil {
		return repository.Erased{}, err
	}
	return a.removeBytes(ctx, id)
}

// eraseOne erases a message and hides it in its object, which still contains its bytes.
func (a *Archive) eraseOne(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) error {
	_, err := a.db.Erase(ctx, id, cause)
	if errors.Is(err, entity.ErrNotFound) {
		err = a.withRow(ctx, id, a.wholeRows, func(o *repository.ArchiveObject, r *repository.ArchivedRow) error {
			return a.catalog.EraseRow(ctx, o.ID, r, cause)
		})
	}
	return err
}

// removeBytes replaces all objects of the manifest that still contain the bytes of an erased message by objects without
// them, and deletes the copies outside the manifest. There are several such objects when the message was restored and
// archived again. When an object of the manifest cannot be read, removeBytes leaves that object as it was, and returns
// an error. After any other error it returns no error, because the archiver will try again.
func (a *Archive) removeBytes(ctx context.Context, id uuid.UUID) (repository.Erased, error) {
	objects, err := a.catalog.HidingObjects(ctx, id)
	errs := []error{err}
	for i := range objects {
		errs = append(errs, a.remove(ctx, &objects[i]))
	}
	erased, err := a.rewrite.RemoveCopies(ctx, id)
	errs = append(errs, err)
	if left, err := a.catalog.HidingObjects(ctx, id); err != nil || len(left) > 0 {
		erased.Pending = true
	}
	if err := errors.Join(errs...); errors.Is(err, repository.ErrObject) {
		return erased, fmt.Errorf("message %s is erased, but its bytes remain: %w", id, err)
	}
	return erased, nil
}

// remove writes an object again without its hidden messages. Only one erasure does this at a time, because it takes the
// memory of three objects.
func (a *Archive) remove(ctx context.Context, o *repository.ArchiveObject) error {
	select {
	case a.erasing <- struct{}{}:
		defer func() { <-a.erasing }()
		return a.rewrite.Rewrite(ctx, o)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// objectEntries returns the id, the time and the topics of each message in an object. It takes them from the entryCache
// if they are there, because a list reads the same objects for each of its pages.
func (a *Archive) objectEntries(ctx context.Context, o *repository.ArchiveObject) ([]file.Entry, error) {
	if known, ok := a.entries.get(o.Key); ok {
		return known, nil
	}
	var entries []file.Entry
	err := a.open(ctx, o, openParts, func(f *file.File) (err error) {
		entries, err = f.Entries()
		return err
	})
	if err != nil {
		return nil, err
	}
	a.entries.put(o.Key, entries)
	return entries, nil
}

// rows reads only the parts of an object that may contain the wanted rows. It is a rowReader.
func (a *Archive) rows(ctx context.Context, o *repository.ArchiveObject, wanted map[uuid.UUID]bool, do func(*repository.ArchivedRow) error) error {
	return a.open(ctx, o, openParts, func(f *file.File) error { return f.Rows(wanted, do) })
}

// wholeRows reads the whole object, and compares it with its checksum, before it calls do. It is a rowReader. When the
// content cannot be decoded, the error is a *repository.ObjectError.
func (a *Archive) wholeRows(ctx context.Context, o *repository.ArchiveObject, wanted map[uuid.UUID]bool, do func(*repository.ArchivedRow) error) error {
	return a.open(ctx, o, openWhole, func(f *file.File) error {
		var failed error
		err := f.Rows(wanted, func(r *repository.ArchivedRow) error {
			failed = do(r)
			return failed
		})
		if failed == nil {
			err = damaged(o, err)
		}
		return err
	})
}

// open opens an object and calls read with it. While maxReads objects are being read, open waits.
func (a *Archive) open(ctx context.Context, o *repository.ArchiveObject, open opener, read func(*file.File) error) error {
	select {
	case a.slots <- struct{}{}:
		defer func() { <-a.slots }()
	case <-ctx.Done():
		return fmt.Errorf("wait for other reads of objects: %w", ctx.Err())
	}
	f, err := open(ctx, a.bucket, o)
	if err != nil {
		return err
	}
	return read(f)
}
