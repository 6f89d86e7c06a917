package objects

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
)

// Rewriter replaces and removes objects of the manifest.
type Rewriter struct{ db *conn.DB }

// NewRewriter returns a Rewriter that sends its statements to db.
func NewRewriter(db *conn.DB) *Rewriter { return &Rewriter{db} }

// HiddenObjects returns objects that contain hidden messages, in the order of their ids: at most limit objects whose id
// is higher than after.
func (s *Rewriter) HiddenObjects(ctx context.Context, after uuid.UUID, limit int) ([]repository.ArchiveObject, error) {
	return find(ctx, s.db, "find objects to write again", objectQuery+`
		WHERE o.hidden > 0 AND o.purged_at IS NULL AND o.id > $1 ORDER BY o.id LIMIT $2`, after, limit)
}

// Object returns an entry of the manifest; ok is false when there is none.
func (s *Rewriter) Object(ctx context.Context, id uuid.UUID) (o repository.ArchiveObject, ok bool, err error) {
	found, err := find(ctx, s.db, "find an object", objectQuery+` WHERE o.id = $1 AND o.purged_at IS NULL`, id)
	if err != nil || len(found) == 0 {
		return repository.ArchiveObject{}, false, err
	}
	return found[0], true, nil
}

// BeginReplacement stores the key of an object that is about to be written, and that will replace the object with the
// given id in the manifest.
func (s *Rewriter) BeginReplacement(ctx context.Context, key, bucket string, id uuid.UUID) error {
	err := s.db.Exec(ctx, `INSERT INTO dlq.archive_deletions (object_key, bucket, message_ids)
		VALUES ($1, $2, dlq.archive_object_ids($3))`, key, bucket, id)
	return conn.Translate("begin an object of the archive", err)
}

// ReplaceObject replaces the object with the given id and the key old in the manifest by o, which lacks the removed
// messages. When o is nil, no messages are left, and the entry of the manifest is deleted. ReplaceObject returns false
// when the key of the entry is no longer old.
func (s *Rewriter) ReplaceObject(
	ctx context.Context, id uuid.UUID, old string, o *repository.ArchiveObject, removed []uuid.UUID,
) (bool, error) {
	var entry any
	if o != nil {
		text, err := json.Marshal(o)
		if err != nil {
			return false, fmt.Errorf("replace an object of the archive: %w", err)
		}
		entry = string(text)
	}
	var done []bool
	err := s.db.Select(ctx, &done, `SELECT dlq.replace_archive_object($1, $2, $3::jsonb, $4::uuid[])`, id, old, entry, codec.UUIDArray(removed))
	return len(done) > 0 && done[0], conn.Translate("replace an object of the archive", err)
}

// deletionsQuery selects the objects that must be deleted: objects that were replaced or abandoned, and objects that
// were not added to the manifest within an hour after BeginObject. It marks them, so that AddObject refuses them from
// then on.
const deletionsQuery = `
	UPDATE dlq.archive_deletions d SET begun = true
	FROM (
		SELECT object_key FROM dlq.archive_deletions
		WHERE (replaced OR begun OR created_at < coalesce($1::timestamptz, now()) - interval '1 hour')
		  AND (retained_until IS NULL OR retained_until < coalesce($1::timestamptz, now()))
		  AND object_key > $2 AND NOT EXISTS (SELECT FROM dlq.archive_objects o WHERE o.object_key = archive_deletions.object_key)
		ORDER BY object_key LIMIT $3 FOR UPDATE SKIP LOCKED
	) due WHERE d.object_key = due.object_key
	RETURNING d.object_key, d.bucket, true AS due`

// DueDeletions returns objects that can be deleted now: at most limit objects whose key is higher than after.
func (s *Rewriter) DueDeletions(ctx context.Context, after string, limit int) ([]repository.ObjectCopy, error) {
	var due []repository.ObjectCopy
	err := s.db.Select(ctx, &due, deletionsQuery, s.db.Clock(), after, limit)
	return due, conn.Translate("find objects to delete", err)
}

const copiesQuery = `
	SELECT object_key, bucket, replaced OR begun AS due, CASE WHEN retained_until > coalesce($2::timestamptz, now()) THEN retained_until END AS retained_until
	FROM dlq.archive_deletions WHERE $1 = ANY (message_ids) ORDER BY object_key`

// Copies returns the objects outside the manifest that may still contain the bytes of a message.
func (s *Rewriter) Copies(ctx context.Context, id uuid.UUID) ([]repository.ObjectCopy, error) {
	var found []struct {
		repository.ObjectCopy
		Retained sql.NullTime `db:"retained_until"`
	}
	err := s.db.Select(ctx, &found, copiesQuery, id, s.db.Clock())
	copies := make([]repository.ObjectCopy, len(found))
	for i, f := range found {
		copies[i] = f.ObjectCopy
		copies[i].RetainedUntil = codec.TimeOf(f.Retained)
	}
	return copies, conn.Translate("find copies of a message", err)
}

// EndDeletion records that an object was deleted. When an Object Lock retains the object, EndDeletion records until
// when.
func (s *Rewriter) EndDeletion(ctx context.Context, key string, retained time.Time) error {
	query := `DELETE FROM dlq.archive_deletions WHERE object_key = $1 AND (begun OR replaced) AND $2::timestamptz IS NULL`
	if !retained.IsZero() {
		query = `UPDATE dlq.archive_deletions SET retained_until = $2 WHERE object_key = $1 AND (begun OR replaced)`
	}
	err := s.db.Exec(ctx, query, key, sql.NullTime{Time: entity.TruncateTime(retained), Valid: !retained.IsZero()})
	return conn.Translate("end the deletion of an object", err)
}

// PurgeObjects deletes the messages of objects that have been in the archive for longer than days, with their attempts,
// edits and returns, and then the entries of the objects. Each transaction deletes at most batch messages. PurgeObjects
// returns the number of deleted messages.
func (s *Rewriter) PurgeObjects(ctx context.Context, days, batch int) (int64, error) {
	if days < 0 || batch < 1 {
		return 0, fmt.Errorf("purge objects of the archive: days %d, batch %d", days, batch)
	}
	return s.db.DeleteInBatches(ctx, "purge objects of the archive", `SELECT dlq.purge_archive_objects($1, $2)`, days, batch)
}

// Used reports whether the manifest contains an object, or whether there may be an object outside the manifest.
func (s *Rewriter) Used(ctx context.Context) (bool, error) {
	var used []bool
	err := s.db.Select(ctx, &used, `SELECT EXISTS (SELECT FROM dlq.archive_objects) OR EXISTS (SELECT FROM dlq.archive_deletions)`)
	return len(used) > 0 && used[0], conn.Translate("find objects of the archive", err)
}
