package tier

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// manifestStep is the number of objects that one query of the manifest or of the keys to delete returns.
const manifestStep = 100

// Manifest reads and changes the manifest's entries of objects, and the keys of objects to delete.
type Manifest interface {
	// HiddenObjects returns the next objects that have hidden messages, in the order of their ids, after the object
	// with the given id.
	HiddenObjects(ctx context.Context, after uuid.UUID, limit int) ([]repository.ArchiveObject, error)
	// Object returns the manifest's entry of an object; ok is false when the manifest has no such entry.
	Object(ctx context.Context, id uuid.UUID) (o repository.ArchiveObject, ok bool, err error)
	// BeginReplacement stores the key of an object that is about to replace the object with the id; see Rows.BeginObject.
	BeginReplacement(ctx context.Context, key, bucket string, id uuid.UUID) error
	abandoner
	// ReplaceObject replaces the object with the key old by o, which does not contain the removed messages; a nil o
	// only removes the old object from the manifest. ReplaceObject returns false when the manifest has another key for
	// this object by now.
	ReplaceObject(ctx context.Context, id uuid.UUID, old string, o *repository.ArchiveObject, removed []uuid.UUID) (bool, error)
	// DueDeletions returns objects to delete whose keys come after the given key. None of them can enter the manifest
	// any more.
	DueDeletions(ctx context.Context, after string, limit int) ([]repository.ObjectCopy, error)
	// Copies returns the objects outside the manifest that may have the bytes of a message.
	Copies(ctx context.Context, id uuid.UUID) ([]repository.ObjectCopy, error)
	// EndDeletion stores that an object was deleted. When retained is not zero, it stores that Object Lock keeps the
	// object until then.
	EndDeletion(ctx context.Context, key string, retained time.Time) error
	// PurgeObjects deletes the messages in objects that have been in the archive for longer than days, and the
	// manifest's entries of their objects.
	PurgeObjects(ctx context.Context, days, batch int) (int64, error)
}

// Rewriter replaces objects by objects without their hidden messages, and deletes objects that are not needed any more.
type Rewriter struct {
	manifest Manifest
	bucket   Bucket
}

// NewRewriter returns a Rewriter.
func NewRewriter(m Manifest, b Bucket) *Rewriter { return &Rewriter{m, b} }

// Purge deletes messages that have been in the archive for longer than days. Their objects are deleted by Clean.
func (w *Rewriter) Purge(ctx context.Context, days, batch int) (int64, error) {
	return w.manifest.PurgeObjects(ctx, days, batch)
}

// Clean replaces all objects that have hidden messages by objects without these, and deletes all objects that can be
// deleted. It returns how many objects it deleted. When one object fails, it continues with the next.
func (w *Rewriter) Clean(ctx context.Context) (deleted int64, err error) {
	rewritten := w.rewriteAll(ctx)
	deleted, err = w.deleteAll(ctx)
	return deleted, errors.Join(rewritten, err)
}

func (w *Rewriter) rewriteAll(ctx context.Context) error {
	var errs []error
	for after := uuid.Nil; ctx.Err() == nil; {
		objects, err := w.manifest.HiddenObjects(ctx, after, manifestStep)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		for i := range objects {
			errs = append(errs, w.Rewrite(ctx, &objects[i]))
			after = objects[i].ID
		}
		if len(objects) < manifestStep {
			break
		}
	}
	return errors.Join(append(errs, ctx.Err())...)
}

func (w *Rewriter) deleteAll(ctx context.Context) (deleted int64, err error) {
	var errs []error
	elsewhere := map[string]int{} // objects by bucket
	for after := ""; ctx.Err() == nil; {
		due, err := w.manifest.DueDeletions(ctx, after, manifestStep)
		if err != nil {
			return deleted, errors.Join(append(errs, err)...)
		}
		for _, o := range due {
			after = max(after, o.Key)
			if o.Bucket != w.bucket.Name() {
				elsewhere[o.Bucket]++
				continue
			}
			until, err := w.delete(ctx, o.Key)
			if err == nil && until.IsZero() {
				deleted++
			}
			errs = append(errs, err)
		}
		if len(due) < manifestStep {
			break
		}
	}
	for bucket, n := range elsewhere {
		errs = append(errs, fmt.Errorf("%d objects to delete are in the bucket %s, but archive.s3.bucket is %s", n, bucket, w.bucket.Name()))
	}
	return deleted, errors.Join(append(errs, ctx.Err())...)
}

// Rewrite replaces an object by one without its hidden messages. It does nothing when another process has replaced the
// object meanwhile.
func (w *Rewriter) Rewrite(ctx context.Context, o *repository.ArchiveObject) error {
	if err := w.replace(ctx, o.ID, o.Day); err != nil {
		return fmt.Errorf("write object %s again: %w", o.Key, err)
	}
	return nil
}

// replace stores the key of the new object before it reads the entry of the old one, so that an erasure finds each
// object that may contain the bytes of the erased message.
func (w *Rewriter) replace(ctx context.Context, id uuid.UUID, day string) error {
	d := newDraft(w.bucket, id, day)
	if err := w.manifest.BeginReplacement(ctx, d.entry.Key, d.entry.Bucket, id); err != nil {
		return err
	}
	o, ok, err := w.read(ctx, d, id)
	if err != nil || !ok || d.entry.Messages == 0 {
		err = errors.Join(err, d.abandon(ctx, w.manifest, false))
	}
	if err != nil || !ok {
		return err
	}
	if d.entry.Messages == 0 {
		_, err = w.manifest.ReplaceObject(ctx, id, o.Key, nil, o.Hidden)
		return err
	}
	used, err := d.publish(ctx, w.bucket, w.manifest, func() (bool, error) {
		return w.manifest.ReplaceObject(ctx, id, o.Key, &d.entry, o.Hidden)
	})
	if err == nil && !used { // another process was faster
		_, err = w.delete(ctx, d.entry.Key)
	}
	return err
}

// read adds the rows of an object to a draft, without those of hidden messages. ok is false when another process has
// replaced or removed the object, so that nothing is hidden in it any more.
func (w *Rewriter) read(ctx context.Context, d *draft, id uuid.UUID) (o repository.ArchiveObject, ok bool, err error) {
	o, ok, err = w.manifest.Object(ctx, id)
	if err != nil || !ok || len(o.Hidden) == 0 {
		return o, false, err
	}
	if err = w.fill(ctx, d, &o); !errors.Is(err, errGone) {
		return o, true, err
	}
	now, ok, failed := w.manifest.Object(ctx, id)
	if failed == nil && ok && now.Key == o.Key {
		return o, true, err
	}
	return o, false, failed
}

// fill adds the rows of an object to a draft, without those of hidden messages.
func (w *Rewriter) fill(ctx context.Context, d *draft, o *repository.ArchiveObject) error {
	f, err := openWhole(ctx, w.bucket, o)
	if err != nil {
		return err
	}
	hidden := hiddenIn(o)
	left := 0
	err = f.Rows(nil, func(r *repository.ArchivedRow) error {
		if hidden[r.ID] {
			left++
			return nil
		}
		return d.add(r)
	})
	if err != nil {
		return err
	}
	if left != len(hidden) || d.entry.Messages+int64(left) != o.Messages {
		return fmt.Errorf("%d rows and %d hidden rows were read, want %d together, and %d hidden", d.entry.Messages, left, o.Messages, len(hidden))
	}
	return nil
}

// RemoveCopies deletes the objects outside the manifest that contain the bytes of a message: objects that were
// replaced, and objects that never entered the manifest. An object that a process still writes cannot be deleted yet.
func (w *Rewriter) RemoveCopies(ctx context.Context, id uuid.UUID) (left repository.Erased, err error) {
	copies, err := w.manifest.Copies(ctx, id)
	if err != nil {
		return repository.Erased{Pending: true}, err
	}
	var errs []error
	for _, c := range copies {
		until := c.RetainedUntil
		switch {
		case !c.Due, c.Bucket != w.bucket.Name():
			left.Pending = true
		case until.IsZero():
			until, err = w.delete(ctx, c.Key)
			errs = append(errs, err)
		}
		if until.After(left.RetainedUntil) {
			left.RetainedUntil = until
		}
	}
	err = errors.Join(errs...)
	left.Pending = left.Pending || err != nil
	return left, err
}

// delete deletes an object that can no longer enter the manifest.
func (w *Rewriter) delete(ctx context.Context, key string) (until time.Time, err error) {
	until, err = w.bucket.Delete(ctx, key)
	if err != nil {
		return until, err
	}
	return until, w.manifest.EndDeletion(ctx, key, until)
}
