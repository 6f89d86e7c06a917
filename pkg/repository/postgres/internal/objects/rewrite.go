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

// NewRewriter returns the Rewriter of a database.
func NewRewriter(db *conn.DB) *Rewriter { return &Rewriter{db} }

// HiddenObjects returns objects that contain hidden messages: at most limit, in the order of their ids, beginning after
// an id.
func (s *Rewriter) HiddenObjects(ctx context.Context, after uuid.UUID, limit int) ([]repository.ArchiveObject, error) {
	return find(ctx, s.db, "find objects to write again", objectQuery+`
		WHERE o.hidden > 0 AND o.purged_at IS NULL AND o.id > $1 ORDER BY o.id LIMIT $2`, after, limit)
}

// ReplaceObject replaces the object in an entry of the manifest, whose key is the parameter old, by an object that does
// not contain the removed messages. When no messages are left, o is nil, and the entry is deleted. ReplaceObject
// returns false when another process has replaced the object before.
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

// deletionsQuery takes the keys of objects that were replaced, and the keys of objects that were not added to the
// manifest within an hour after BeginObject. After that, AddObject refuses these objects.
const deletionsQuery = `
	UPDATE dlq.archive_deletions d SET begun = true
	FROM (
		SELECT object_key FROM dlq.archive_deletions
		WHERE (replaced OR begun OR created_at < coalesce($1::timestamptz, now()) - interval '1 hour')
		  AND (retained_until IS NULL OR retained_until < coalesce($1::timestamptz, now()))
		  AND object_key > $2
		ORDER BY object_key LIMIT $3 FOR UPDATE SKIP LOCKED
	) due WHERE d.object_key = due.object_key
	RETURNING d.object_key`

// DueDeletions returns the keys of objects that can be deleted now: at most limit, beginning after a key.
func (s *Rewriter) DueDeletions(ctx context.Context, after string, limit int) ([]string, error) {
	var keys []string
	err := s.db.Select(ctx, &keys, deletionsQuery, s.db.Clock(), after, limit)
	return keys, conn.Translate("find objects to delete", err)
}

// EndDeletion stores that an object was deleted, or the time until which an Object Lock retains it.
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

// Used reports whether there is an object in the manifest or an object that must be deleted.
func (s *Rewriter) Used(ctx context.Context) (bool, error) {
	var used []bool
	err := s.db.Select(ctx, &used, `SELECT EXISTS (SELECT FROM dlq.archive_objects) OR EXISTS (SELECT FROM dlq.archive_deletions)`)
	return len(used) > 0 && used[0], conn.Translate("find objects of the archive", err)
}
