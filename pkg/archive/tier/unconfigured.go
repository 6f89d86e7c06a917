package tier

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Unconfigured is the archive of an API whose configuration has no object store. While any message is in an object,
// lists, counts and exports of the archive return an error, because their answers would be incomplete. A request for a
// message that is in an object returns an error as well. Everything else works as without objects.
type Unconfigured struct {
	Database
	objects objectFinder
}

// objectFinder says which archived messages are in objects.
type objectFinder interface {
	FindObject(ctx context.Context, id uuid.UUID) (o repository.ArchiveObject, ok bool, err error)
	// HasObjects reports whether an object has messages of the archive.
	HasObjects(ctx context.Context) (bool, error)
}

// NewUnconfigured returns an Unconfigured.
func NewUnconfigured(db Database, objects objectFinder) *Unconfigured {
	return &Unconfigured{db, objects}
}

// unconfiguredError reports that messages cannot be read without an object store.
type unconfiguredError struct{}

func (unconfiguredError) Error() string {
	return "messages of the archive are in an object store, but archive.store of the API is postgres: set it and archive.s3 as the archiver has them"
}

// Is makes the error's kind repository.ErrObject.
func (unconfiguredError) Is(target error) bool { return target == repository.ErrObject }

// complete returns an error for a read of the archive if any archived message is in an object, which cannot be read.
func (u *Unconfigured) complete(ctx context.Context, archived bool) error {
	if !archived {
		return nil
	}
	has, err := u.objects.HasObjects(ctx)
	if err == nil && has {
		return unconfiguredError{}
	}
	return err
}

// explain returns err, or an unconfiguredError if err says that the message was not found and the message is in an
// object.
func (u *Unconfigured) explain(ctx context.Context, id uuid.UUID, err error) error {
	if !errors.Is(err, entity.ErrNotFound) {
		return err
	}
	_, ok, failed := u.objects.FindObject(ctx, id)
	if failed == nil && ok {
		return unconfiguredError{}
	}
	return errors.Join(failed, err)
}

// Search implements repository.Searcher.
func (u *Unconfigured) Search(ctx context.Context, q repository.SearchQuery) (repository.SearchPage, error) {
	page, err := u.Database.Search(ctx, q)
	if err == nil {
		err = u.complete(ctx, q.Archived)
	}
	return page, err
}

// CountMatching implements repository.Searcher.
func (u *Unconfigured) CountMatching(ctx context.Context, q repository.CountQuery) (repository.MatchCount, error) {
	count, err := u.Database.CountMatching(ctx, q)
	if err == nil {
		err = u.complete(ctx, q.Archived)
	}
	return count, err
}

// Export implements repository.Searcher. It looks for messages in objects before and after the export, because messages
// may move to objects during the export.
func (u *Unconfigured) Export(ctx context.Context, q repository.ExportQuery, yield func(*entity.Message) error) error {
	err := u.complete(ctx, q.Archived)
	if err == nil {
		err = u.Database.Export(ctx, q, yield)
	}
	if err == nil {
		err = u.complete(ctx, q.Archived)
	}
	return err
}

// GetArchived implements repository.Archive.
func (u *Unconfigured) GetArchived(ctx context.Context, id uuid.UUID, maxValue int64) (entity.Message, error) {
	m, err := u.Database.GetArchived(ctx, id, maxValue)
	return m, u.explain(ctx, id, err)
}

// ValuePart implements repository.Reader.
func (u *Unconfigured) ValuePart(ctx context.Context, p repository.ValuePart) ([]byte, error) {
	value, err := u.Database.ValuePart(ctx, p)
	return value, u.explain(ctx, p.ID, err)
}

// Restore implements repository.Archive.
func (u *Unconfigured) Restore(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) (entity.Message, error) {
	return u.RestoreHeld(ctx, id, 0, cause)
}

// RestoreHeld restores a message as Restore does. The message is due for automatic retry when the time hold is over.
func (u *Unconfigured) RestoreHeld(ctx context.Context, id uuid.UUID, hold time.Duration, cause entity.AuditInfo) (entity.Message, error) {
	m, err := u.Database.RestoreHeld(ctx, id, hold, cause)
	return m, u.explain(ctx, id, err)
}

// Erase implements repository.Archive. An object that contains the bytes of the erased message keeps them until the
// archiver writes it again, because this API cannot write objects.
func (u *Unconfigured) Erase(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) (repository.Erased, error) {
	erased, err := u.Database.Erase(ctx, id, cause)
	if err = u.explain(ctx, id, err); err != nil {
		return erased, err
	}
	has, err := u.objects.HasObjects(ctx)
	erased.Pending = err != nil || has
	return erased, nil //nolint:nilerr // the message is erased
}
