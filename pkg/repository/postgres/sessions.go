package postgres

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
)

// Sessions keeps what the replicas of the API have to agree on about those who use it:
// the keys that cursors are signed with, and which sessions were ended. It is safe for
// concurrent use.
type Sessions struct{ db *sqlx.DB }

// NewSessions uses a database that Open connected, whose schema has been migrated.
func NewSessions(db *sqlx.DB) *Sessions { return &Sessions{db} }

// SigningKeys returns the keys, that which signs first. Where there is none, candidate
// becomes the one of all processes, unless another process is quicker.
func (s *Sessions) SigningKeys(ctx context.Context, candidate []byte) ([][]byte, error) {
	const (
		read  = `SELECT key FROM dlq.signing_keys ORDER BY id DESC`
		first = `INSERT INTO dlq.signing_keys (id, key) VALUES (1, $1) ON CONFLICT DO NOTHING`
	)
	var keys [][]byte
	err := s.db.SelectContext(ctx, &keys, read)
	if err == nil && len(keys) == 0 {
		if _, err = s.db.ExecContext(ctx, first, candidate); err == nil {
			err = s.db.SelectContext(ctx, &keys, read)
		}
	}
	return keys, translate("read the signing keys", err)
}

// EndSessions keeps the digests until then.
func (s *Sessions) EndSessions(ctx context.Context, digests [][32]byte, until time.Time) error {
	_, err := s.db.ExecContext(ctx, `
		INSERT INTO dlq.revoked_sessions AS r (digest, ends_at)
		SELECT d, $2 FROM unnest($1::bytea[]) AS d ORDER BY d
		ON CONFLICT (digest) DO UPDATE SET ends_at = greatest(r.ends_at, excluded.ends_at)`, byteaArray(digests), until)
	return translate("end a session", err)
}

// EndedSessions returns which of the digests are kept.
func (s *Sessions) EndedSessions(ctx context.Context, digests [][32]byte) ([][32]byte, error) {
	var rows [][]byte
	err := s.db.SelectContext(ctx, &rows, `SELECT digest FROM dlq.revoked_sessions WHERE digest = ANY ($1)`, byteaArray(digests))
	found := make([][32]byte, 0, len(rows))
	for _, row := range rows {
		found = append(found, [32]byte(row)) // of this length, by the table's constraint
	}
	return found, translate("read ended sessions", err)
}

func byteaArray(digests [][32]byte) pq.ByteaArray {
	array := make(pq.ByteaArray, 0, len(digests))
	for _, d := range digests {
		array = append(array, d[:])
	}
	return array
}

const purgeSessionsQuery = `
	WITH gone AS (
		DELETE FROM dlq.revoked_sessions WHERE digest = ANY (ARRAY(
			SELECT digest FROM dlq.revoked_sessions
			WHERE ends_at < coalesce($1::timestamptz, now()) LIMIT $2 FOR UPDATE SKIP LOCKED))
		RETURNING 1
	)
	SELECT count(*) FROM gone`

func (s *Store) purgeSessions(ctx context.Context, batch int) (int64, error) {
	return s.purge(ctx, "purge ended sessions", purgeSessionsQuery, s.clock(), batch)
}
