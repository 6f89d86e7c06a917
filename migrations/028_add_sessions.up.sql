-- dlq-db: what the replicas of the API have to agree on about those who use it.

SET LOCAL lock_timeout = '5s';

-- Keys that cursors are signed with where auth.signing_key_file names none: the first
-- process makes one. The highest id signs, all verify.
CREATE TABLE dlq.signing_keys (
    id         INTEGER     PRIMARY KEY,
    key        BYTEA       NOT NULL CHECK (octet_length(key) = 32),
    created_at TIMESTAMPTZ NOT NULL DEFAULT now()
);

-- Sessions of the console that were signed out, and the tokens that ended with them, as
-- SHA-256, until the token would have ended anyway.
CREATE TABLE dlq.revoked_sessions (
    digest     BYTEA       PRIMARY KEY CHECK (octet_length(digest) = 32),
    ends_at    TIMESTAMPTZ NOT NULL,
    revoked_at TIMESTAMPTZ NOT NULL DEFAULT now()
);
CREATE INDEX idx_revoked_sessions_ends_at ON dlq.revoked_sessions (ends_at);

-- Reports have no business with either.
REVOKE ALL ON dlq.signing_keys, dlq.revoked_sessions FROM PUBLIC;
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'dlq_rw') THEN
        GRANT SELECT, INSERT ON dlq.signing_keys TO dlq_rw;
        GRANT SELECT, INSERT, UPDATE, DELETE ON dlq.revoked_sessions TO dlq_rw;
    END IF;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'dlq_ro') THEN
        REVOKE ALL ON dlq.signing_keys, dlq.revoked_sessions FROM dlq_ro;
    END IF;
END;
$$;
