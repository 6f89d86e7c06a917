package insight

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
)

// Keys implements repository.Keys.
type Keys struct{ db *conn.DB }

// NewKeys returns Keys that send their statements to db.
func NewKeys(db *conn.DB) *Keys { return &Keys{db} }

// openKeyQuery acquires a key that is new, expired or abandoned. It also acquires a key that the caller holds already,
// because the driver may send the statement twice. The unique constraint of the table lets one caller insert the key;
// all other callers read the row. When the row was inserted after the statement began, the statement does not see it
// and returns nothing; then OpenKey runs the statement again.
const openKeyQuery = `
	WITH taken AS (
		INSERT INTO dlq.idempotency_keys AS k
			(principal, key, request, operation_id, owner, lease_expires_at, created_at)
		SELECT $1, $2, $3, $4, $5, moment + $6::bigint * interval '1 microsecond', moment
		FROM (SELECT coalesce($8::timestamptz, clock_timestamp()) AS moment) c
		ON CONFLICT (principal, key) DO UPDATE SET
			request = excluded.request,
			operation_id = CASE WHEN k.created_at <= excluded.created_at - $7::bigint * interval '1 microsecond'
			               THEN excluded.operation_id ELSE k.operation_id END,
			created_at = CASE WHEN k.created_at <= excluded.created_at - $7::bigint * interval '1 microsecond'
			             THEN excluded.created_at ELSE k.created_at END,
			owner = excluded.owner,
			lease_expires_at = excluded.lease_expires_at,
			status = NULL, location = NULL, body = NULL
		WHERE k.created_at <= excluded.created_at - $7::bigint * interval '1 microsecond'
		   OR k.request = excluded.request AND k.status IS NULL
		      AND (k.owner = excluded.owner OR k.lease_expires_at <= excluded.created_at)
		RETURNING k.operation_id
	)
	SELECT true AS taken, operation_id, true AS same, NULL::int AS status, NULL::text AS location, NULL::bytea AS body
	FROM taken
	UNION ALL
	SELECT false, k.operation_id, k.request = $3, k.status, k.location, k.body
	FROM dlq.idempotency_keys k
	WHERE k.principal = $1 AND k.key = $2 AND NOT EXISTS (SELECT FROM taken)
	  AND k.created_at > coalesce($8::timestamptz, clock_timestamp()) - $7::bigint * interval '1 microsecond'`

type keyRow struct {
	Taken     bool      `db:"taken"`
	Operation uuid.UUID `db:"operation_id"`
	Same      bool      `db:"same"`
	Status    *int      `db:"status"`
	Location  *string   `db:"location"`
	Body      []byte    `db:"body"`
}

// OpenKey implements repository.Keys.
func (s *Keys) OpenKey(ctx context.Context, k repository.Key, lease time.Duration) (repository.KeyState, error) {
	for range 10 { // two tries are enough unless other callers keep creating and dropping the key
		var found []keyRow
		err := s.db.Select(ctx, &found, openKeyQuery, codec.Clean(k.Principal), codec.Clean(k.Key), k.Request[:],
			k.Operation, k.Owner, lease.Microseconds(), repository.KeyLife.Microseconds(), s.db.Clock())
		if err != nil {
			return repository.KeyState{}, conn.Translate("open idempotency key", err)
		}
		if len(found) > 0 {
			return found[0].state(k), nil
		}
	}
	return repository.KeyState{}, conn.Unavailable("open idempotency key", errors.New("other callers keep creating and dropping it"))
}

// state returns the state of an idempotency key as the caller sees it who has opened the key with k.
func (r keyRow) state(k repository.Key) repository.KeyState {
	state := repository.KeyState{Phase: repository.KeyAtWork, Operation: r.Operation}
	switch {
	case r.Taken && r.Operation == k.Operation:
		state.Phase = repository.KeyNew
	case r.Taken:
		state.Phase = repository.KeyAbandoned
	case !r.Same:
		state.Phase = repository.KeyOther
	case r.Status != nil:
		state.Phase = repository.KeyDone
		state.Answer = repository.Answer{Status: *r.Status, Body: r.Body}
		if r.Location != nil {
			state.Answer.Location = *r.Location
		}
	}
	return state
}

// ownKey is the SQL condition for the row of an idempotency key that the caller holds: its lease belongs to the caller,
// and no answer is stored yet.
const ownKey = ` WHERE principal = $1 AND key = $2 AND owner = $3 AND status IS NULL`

// HoldKey implements repository.Keys.
func (s *Keys) HoldKey(ctx context.Context, k repository.Key, lease time.Duration) error {
	return s.onKey(ctx, "hold idempotency key", k, `
		UPDATE dlq.idempotency_keys
		SET lease_expires_at = coalesce($5::timestamptz, clock_timestamp()) + $4::bigint * interval '1 microsecond'`+ownKey,
		lease.Microseconds(), s.db.Clock())
}

// CloseKey implements repository.Keys.
func (s *Keys) CloseKey(ctx context.Context, k repository.Key, answer repository.Answer) error {
	return s.onKey(ctx, "close idempotency key", k, `
		UPDATE dlq.idempotency_keys SET status = $4::int, location = nullif($5::text, ''), body = $6::bytea`+ownKey,
		answer.Status, codec.Clean(answer.Location), answer.Body)
}

// DropKey implements repository.Keys.
func (s *Keys) DropKey(ctx context.Context, k repository.Key) error {
	return s.onKey(ctx, "drop idempotency key", k, `DELETE FROM dlq.idempotency_keys`+ownKey)
}

// onKey runs a statement on the row of an idempotency key. When the caller does not hold the key, the statement changes
// nothing.
func (s *Keys) onKey(ctx context.Context, where string, k repository.Key, query string, args ...any) error {
	var none []keyRow
	args = append([]any{codec.Clean(k.Principal), codec.Clean(k.Key), k.Owner}, args...)
	return conn.Translate(where, s.db.Select(ctx, &none, query, args...))
}

// Sessions stores what replicas of the API share: the keys that sign cursors, and ended sessions. It is safe for
// concurrent use.
type Sessions struct{ db *sqlx.DB }

// NewSessions returns Sessions that are stored in db, whose schema must have been migrated; Open returns such a db.
func NewSessions(db *sqlx.DB) *Sessions { return &Sessions{db} }

// SigningKeys returns all signing keys; the first one signs new cursors. When there is no key yet, SigningKeys stores
// the parameter candidate as the first key. When another process stores a key at the same time, only that key is stored
// and returned.
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
	return keys, conn.Translate("read the signing keys", err)
}

// EndSessions marks the sessions with these digests as ended, at least until the given time.
func (s *Sessions) EndSessions(ctx context.Context, digests [][32]byte, until time.Time) error {
	_, err := s.db.ExecContext(ctx, `
		INSERT INTO dlq.revoked_sessions AS r (digest, ends_at)
		SELECT d, $2 FROM unnest($1::bytea[]) AS d ORDER BY d
		ON CONFLICT (digest) DO UPDATE SET ends_at = greatest(r.ends_at, excluded.ends_at)`, byteaArray(digests), until)
	return conn.Translate("end a session", err)
}

// EndedSessions returns those of the given digests whose sessions were ended.
func (s *Sessions) EndedSessions(ctx context.Context, digests [][32]byte) ([][32]byte, error) {
	var rows [][]byte
	err := s.db.SelectContext(ctx, &rows, `SELECT digest FROM dlq.revoked_sessions WHERE digest = ANY ($1)`, byteaArray(digests))
	found := make([][32]byte, 0, len(rows))
	for _, row := range rows {
		found = append(found, [32]byte(row)) // a constraint of the table ensures that a digest has 32 bytes
	}
	return found, conn.Translate("read ended sessions", err)
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
