package insight

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
)

// Limits for the drafts of one owner. When a new draft exceeds a limit, the owner's oldest drafts are deleted. A draft
// is the input of a user in a form of the console.
const (
	maxDrafts       = 100
	maxDraftBytes   = 32 << 20
	maxUnownedBytes = 8 << 20 // limit for all drafts of users who are not signed in
)

// Drafts stores drafts, which are the contents of forms that the console shows again, so that every replica of the API
// can show them. It is safe for concurrent use.
type Drafts struct {
	db   *sqlx.DB
	life time.Duration
}

// NewDrafts returns Drafts that are stored in db, whose schema must have been migrated; Open returns such a db. A draft
// can be read for the time in the parameter life.
func NewDrafts(db *sqlx.DB, life time.Duration) *Drafts { return &Drafts{db, life} }

// keepDraftQuery stores a draft and, in the same statement, deletes the owner's oldest drafts if the owner exceeds the
// limits. So the number of drafts is limited even when no process purges old drafts.
const keepDraftQuery = `
	WITH surplus AS (
		SELECT id FROM (
			SELECT id, row_number() OVER newest AS n, sum(octet_length(content)) OVER newest AS bytes
			FROM dlq.console_drafts WHERE owner = $2
			WINDOW newest AS (ORDER BY created_at DESC, id ROWS UNBOUNDED PRECEDING)) d
		WHERE n >= $4 OR bytes > $5::bigint - octet_length($3::bytea)
	), gone AS (
		DELETE FROM dlq.console_drafts WHERE id IN (SELECT id FROM surplus)
	)
	INSERT INTO dlq.console_drafts (id, owner, content, created_at) VALUES ($1, $2, $3, clock_timestamp())`

// KeepDraft implements console.Drafts.
func (s *Drafts) KeepDraft(ctx context.Context, id, owner string, content []byte) error {
	most := maxDraftBytes
	if owner == "" {
		most = maxUnownedBytes
	}
	_, err := s.db.ExecContext(ctx, keepDraftQuery, id, codec.Clean(owner), content, maxDrafts, most)
	return conn.Translate("keep a draft", err)
}

// Draft implements console.Drafts.
func (s *Drafts) Draft(ctx context.Context, id string) ([]byte, error) {
	var content []byte
	err := s.db.GetContext(ctx, &content, `
		SELECT content FROM dlq.console_drafts
		WHERE id = $1 AND created_at > now() - $2::bigint * interval '1 microsecond'`, codec.Clean(id), s.life.Microseconds())
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return content, conn.Translate("read a draft", err)
}

// purgeDraftsQuery deletes drafts a day after they were written.
const purgeDraftsQuery = `
	WITH gone AS (
		DELETE FROM dlq.console_drafts WHERE id = ANY (ARRAY(
			SELECT id FROM dlq.console_drafts
			WHERE created_at < coalesce($1::timestamptz, now()) - interval '1 day' LIMIT $2 FOR UPDATE SKIP LOCKED))
		RETURNING 1
	)
	SELECT count(*) FROM gone`
