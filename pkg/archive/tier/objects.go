package tier

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/archive/tier/internal/bucket"
	"github.com/dlq-manager/dlq-manager/pkg/archive/tier/internal/file"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Config names the bucket of the objects, and how to sign in.
type Config = bucket.Config

// Bucket stores objects.
type Bucket interface {
	// Name returns the name of the bucket.
	Name() string
	// Key returns the key of an object with a path below the prefix of the configuration.
	Key(path string) string
	Put(ctx context.Context, key string, content []byte) error
	// Read returns length bytes from offset on, or fewer at the end of the object.
	Read(ctx context.Context, key string, offset, length int64) ([]byte, error)
	// Delete deletes all versions of an object. When Object Lock forbids the deletion, until is the time until which it
	// does; otherwise until is zero.
	Delete(ctx context.Context, key string) (until time.Time, err error)
	// Check returns nil when the bucket can be used.
	Check(ctx context.Context) error
}

// OpenBucket returns the bucket of a valid configuration, without sending a request.
func OpenBucket(cfg Config) (Bucket, error) { return bucket.Open(cfg) }

// errGone reports that an object does not exist. In most cases another object has replaced it since the manifest was
// read.
var errGone = bucket.ErrGone

// hiddenIn returns the ids of the messages that are hidden in an object.
func hiddenIn(o *repository.ArchiveObject) map[uuid.UUID]bool {
	hidden := make(map[uuid.UUID]bool, len(o.Hidden))
	for _, id := range o.Hidden {
		hidden[id] = true
	}
	return hidden
}

// otherBucketError reports that an object is in another bucket than the one of the configuration. The object can be read
// once the configuration, or the manifest, names the right bucket.
type otherBucketError struct{ key, bucket, configured string }

func (e *otherBucketError) Error() string {
	return "object " + e.key + " of the archive is in the bucket " + e.bucket + ", but archive.s3.bucket is " + e.configured
}

// Is makes the error's kind repository.ErrObject.
func (e *otherBucketError) Is(target error) bool { return target == repository.ErrObject }

// damaged returns an error about the content of an object, which is in memory as a whole, as a *repository.ObjectError.
func damaged(o *repository.ArchiveObject, err error) error {
	if err == nil {
		return nil
	}
	return &repository.ObjectError{Key: o.Key, Reason: "is damaged: " + err.Error()}
}

// readPart reads a part of an object. When the object does not exist, the error is both errGone and a
// *repository.ObjectError. Either another object has replaced it, or the manifest names an object that is missing; the
// manifest, read again, says which.
func readPart(ctx context.Context, b Bucket, o *repository.ArchiveObject, offset, length int64) ([]byte, error) {
	if o.Bucket != b.Name() {
		return nil, &otherBucketError{key: o.Key, bucket: o.Bucket, configured: b.Name()}
	}
	content, err := b.Read(ctx, o.Key, offset, length)
	if errors.Is(err, errGone) {
		err = fmt.Errorf("%w: %w", &repository.ObjectError{Key: o.Key, Reason: "does not exist"}, err)
	}
	return content, err
}

// draft is an object that is being written, with its future entry in the manifest.
type draft struct {
	entry repository.ArchiveObject
	file  *file.Writer
}

// newDraft returns a draft without rows, for an object with messages of the given day.
func newDraft(b Bucket, id uuid.UUID, day string) *draft {
	return &draft{
		entry: repository.ArchiveObject{ID: id, Day: day, Bucket: b.Name(), Key: b.Key(fmt.Sprintf("day=%s/%s.parquet", day, uuid.New()))},
		file:  file.NewWriter(),
	}
}

// add appends a row to the object. Rows must be added in the order of their ids.
func (d *draft) add(r *repository.ArchivedRow) error {
	if err := d.file.Add(r); err != nil {
		return err
	}
	d.entry.Add(r)
	return nil
}

// write writes the object, reads it back, and checks its number of rows and its checksum. When the request to write the
// object fails, written is false: the object store may still write the object later, or never.
func (d *draft) write(ctx context.Context, b Bucket) (written bool, err error) {
	content, err := d.file.Finish()
	if err != nil {
		return false, err
	}
	sum := sha256.Sum256(content)
	d.entry.Bytes, d.entry.SHA256 = int64(len(content)), sum[:]
	if err := b.Put(ctx, d.entry.Key, content); err != nil {
		return false, err
	}
	f, err := openWhole(ctx, b, &d.entry)
	if err == nil && f.Messages() != d.entry.Messages {
		err = fmt.Errorf("object %s has %d rows, want %d", d.entry.Key, f.Messages(), d.entry.Messages)
	}
	return true, err
}

// publish writes the object and calls enter, which enters the object into the manifest. enter returns false when the
// manifest does not take the object. An object that was written and does not enter the manifest is abandoned.
func (d *draft) publish(ctx context.Context, b Bucket, keys abandoner, enter func() (used bool, err error)) (used bool, err error) {
	written, err := d.write(ctx, b)
	if err != nil && !written {
		return false, err
	}
	if err == nil {
		used, err = enter()
	}
	if used && err == nil {
		return true, nil
	}
	return false, errors.Join(err, d.abandon(ctx, keys, true))
}

// abandoner gives up the keys of objects that were begun and do not enter the manifest.
type abandoner interface {
	// AbandonObject marks an object that has not entered the manifest as one to delete. If the object was never
	// written, AbandonObject deletes its key.
	AbandonObject(ctx context.Context, key string, written bool) error
}

// abandonTimeout limits the statement that abandons a key. This statement runs even when the work on the object was
// cancelled.
const abandonTimeout = 5 * time.Second

// abandon gives up an object that does not enter the manifest. When the database does not answer now, a run of the
// archiver deletes the object an hour later.
func (d *draft) abandon(ctx context.Context, keys abandoner, written bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonTimeout)
	defer cancel()
	return keys.AbandonObject(ctx, d.entry.Key, written)
}

// openWhole reads an object as a whole and compares it with the checksum of the manifest.
func openWhole(ctx context.Context, b Bucket, o *repository.ArchiveObject) (*file.File, error) {
	content, err := readPart(ctx, b, o, 0, o.Bytes+1)
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(content); !bytes.Equal(sum[:], o.SHA256) {
		return nil, &repository.ObjectError{Key: o.Key, Reason: fmt.Sprintf("has %d bytes with the checksum %x, want %d with %x",
			len(content), sum, o.Bytes, []byte(o.SHA256))}
	}
	source := &ranges{size: o.Bytes, parts: []part{{0, content}}}
	f, err := file.Open(source, o.Bytes)
	return f, damaged(o, err)
}

// openParts opens an object of which only some parts will be read. It reads only the end of the object, where Parquet
// keeps its metadata.
func openParts(ctx context.Context, b Bucket, o *repository.ArchiveObject) (*file.File, error) {
	source := &ranges{size: o.Bytes, read: func(offset, length int64) ([]byte, error) {
		return readPart(ctx, b, o, offset, length)
	}}
	end := min(o.Bytes, file.TailBytes)
	if err := source.Prefetch(o.Bytes-end, end); err != nil {
		return nil, err
	}
	return file.Open(source, o.Bytes)
}

// ranges reads an object in large parts. It keeps the end of the object and the part that was read last.
type ranges struct {
	size  int64
	read  func(offset, length int64) ([]byte, error)
	parts []part
}

type part struct {
	offset  int64
	content []byte
}

func (p part) has(offset, length int64) bool {
	return offset >= p.offset && offset+length <= p.offset+int64(len(p.content))
}

// Prefetch implements file.Source.
func (s *ranges) Prefetch(offset, length int64) error {
	for _, p := range s.parts {
		if p.has(offset, length) {
			return nil
		}
	}
	content, err := s.read(offset, length)
	if err != nil {
		return err
	}
	if int64(len(content)) < length {
		return fmt.Errorf("%d bytes at %d: %w", length, offset, io.ErrUnexpectedEOF)
	}
	s.parts = append(s.parts[:min(len(s.parts), 1)], part{offset, content})
	return nil
}

// ReadAt implements io.ReaderAt.
func (s *ranges) ReadAt(b []byte, offset int64) (int, error) {
	length := min(int64(len(b)), s.size-offset)
	if length < 0 {
		return 0, io.EOF
	}
	if err := s.Prefetch(offset, length); err != nil {
		return 0, err
	}
	for _, p := range s.parts {
		if p.has(offset, length) {
			copy(b, p.content[offset-p.offset:][:length])
		}
	}
	if length < int64(len(b)) {
		return int(length), io.EOF
	}
	return int(length), nil
}
