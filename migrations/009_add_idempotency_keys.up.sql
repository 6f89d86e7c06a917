-- dlq-db: what requests with an Idempotency-Key were answered with.

CREATE TABLE dlq.idempotency_keys (
    principal        TEXT        NOT NULL,
    key              TEXT        NOT NULL,
    request          BYTEA       NOT NULL, -- digest of method, path and body
    operation_id     UUID        NOT NULL, -- of the work that it began
    owner            UUID        NOT NULL, -- who is at work
    lease_expires_at TIMESTAMPTZ NOT NULL,
    status           INT,                  -- NULL while somebody is at work
    location         TEXT,
    body             BYTEA,
    created_at       TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (principal, key)
);

CREATE INDEX idx_idempotency_keys_created_at ON dlq.idempotency_keys (created_at);

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'dlq_rw') THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON dlq.idempotency_keys TO dlq_rw;
    END IF;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'dlq_ro') THEN
        GRANT SELECT ON dlq.idempotency_keys TO dlq_ro;
    END IF;
END;
$$;
