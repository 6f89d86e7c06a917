package tier

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Limits of an object, because its rows and its file are in memory while it is written.
const (
	maxRows  = 20_000
	maxBytes = 32 << 20
	// One statement reads at most loadRows rows. It reads at least one row, and further rows only while all together
	// have at most loadBytes.
	loadRows  = 500
	loadBytes = 4 << 20
)

// Rows reads the archived messages in the database, and enters the objects to which they are moved into the manifest.
type Rows interface {
	// ClosedDay returns the first day, at or after the given time, that has ended and has archived messages in the
	// database.
	ClosedDay(ctx context.Context, from time.Time) (day time.Time, ok bool, err error)
	// PickArchived returns the ids and sizes of the next messages of a day after an id, in the order of ids.
	PickArchived(ctx context.Context, day time.Time, after uuid.UUID, limit int, maxBytes int64) ([]repository.PickedRow, error)
	// LoadArchived returns the whole rows of those picked messages that are still in the database, in the order of ids.
	LoadArchived(ctx context.Context, picked []repository.PickedRow) ([]repository.ArchivedRow, error)
	// BeginObject stores the key of an object that is about to be written, so that the object is deleted if it never
	// enters the manifest. It also stores ids, the messages whose bytes the object may contain.
	BeginObject(ctx context.Context, key, bucket string, ids []uuid.UUID) error
	abandoner
	// AddObject enters an object into the manifest and deletes its rows from the database, in one step. A row that
	// changed after it was read stays in the database, and its message is hidden in the object.
	AddObject(ctx context.Context, o repository.ArchiveObject, rows []repository.ArchivedRow) (int64, error)
}

// Mover moves the messages of closed days, which are days of the archive that have ended, from the database to objects.
type Mover struct {
	rows   Rows
	bucket Bucket
}

// NewMover returns a Mover.
func NewMover(rows Rows, b Bucket) *Mover { return &Mover{rows, b} }

// Move writes the messages of all closed days to objects, the oldest day first, and returns how many messages it moved.
// When one object fails, it continues with the next.
func (m *Mover) Move(ctx context.Context) (moved int64, err error) {
	var errs []error
	for from := (time.Time{}); ctx.Err() == nil; {
		day, ok, err := m.rows.ClosedDay(ctx, from)
		if err != nil || !ok {
			return moved, errors.Join(append(errs, err)...)
		}
		n, err := m.moveDay(ctx, day)
		moved += n
		if err != nil && ctx.Err() == nil {
			errs = append(errs, fmt.Errorf("move %s: %w", day.Format(time.DateOnly), err))
		}
		from = day.AddDate(0, 0, 1)
	}
	return moved, errors.Join(append(errs, ctx.Err())...)
}

// moveDay moves the messages of one closed day to objects. When one object fails, it continues with the next object.
func (m *Mover) moveDay(ctx context.Context, day time.Time) (moved int64, err error) {
	var errs []error
	for after := uuid.Nil; ctx.Err() == nil; {
		picked, err := m.rows.PickArchived(ctx, day, after, maxRows, maxBytes)
		if err != nil || len(picked) == 0 {
			return moved, errors.Join(append(errs, err)...)
		}
		n, err := m.moveObject(ctx, day, picked)
		moved += n
		errs = append(errs, err)
		after = picked[len(picked)-1].ID
	}
	return moved, errors.Join(append(errs, ctx.Err())...)
}

// moveObject writes one object. When it fails or its process dies, the rows are in the database as before. The object,
// if it was written, is then not in the manifest, and a later run deletes it. The key is stored before the rows are
// read, so that an erasure finds each object that may contain the bytes of the erased message.
func (m *Mover) moveObject(ctx context.Context, day time.Time, picked []repository.PickedRow) (int64, error) {
	d := newDraft(m.bucket, uuid.New(), day.Format(time.DateOnly))
	ids := make([]uuid.UUID, len(picked))
	for i := range picked {
		ids[i] = picked[i].ID
	}
	if err := m.rows.BeginObject(ctx, d.entry.Key, d.entry.Bucket, ids); err != nil {
		return 0, err
	}
	rows, err := m.load(ctx, d, picked)
	if err != nil || len(rows) == 0 {
		return 0, errors.Join(err, d.abandon(ctx, m.rows, false))
	}
	var moved int64
	_, err = d.publish(ctx, m.bucket, m.rows, func() (used bool, err error) {
		moved, err = m.rows.AddObject(ctx, d.entry, rows)
		return true, err
	})
	return moved, err
}

// load adds the picked rows to a draft, and returns the id, the time and the version of each row that it has added.
func (m *Mover) load(ctx context.Context, d *draft, picked []repository.PickedRow) ([]repository.ArchivedRow, error) {
	rows := make([]repository.ArchivedRow, 0, len(picked))
	for len(picked) > 0 {
		n := together(picked)
		loaded, err := m.rows.LoadArchived(ctx, picked[:n])
		if err != nil {
			return nil, err
		}
		for i := range loaded {
			if err := d.add(&loaded[i]); err != nil {
				return nil, err
			}
			rows = append(rows, repository.ArchivedRow{ID: loaded[i].ID, ArchivedAt: loaded[i].ArchivedAt, Version: loaded[i].Version})
		}
		picked = picked[n:]
	}
	return rows, nil
}

// together returns how many of the picked rows the next statement reads, within loadRows and loadBytes.
func together(picked []repository.PickedRow) int {
	size := int64(0)
	for i, p := range picked {
		if size += p.Bytes; i == loadRows || i > 0 && size > loadBytes {
			return i
		}
	}
	return len(picked)
}
