-- dlq-db: records that PostgreSQL refused to store as messages.

SET LOCAL lock_timeout = '5s'; -- see 011

-- A row is made in the statement that moves the position past its record, and goes in
-- the statement that stores the message; its id becomes the message's.
CREATE TABLE dlq.quarantine (
    id             UUID        PRIMARY KEY,
    dlq_topic_id   INT         NOT NULL,
    incarnation_id INT         NOT NULL,
    partition      INT         NOT NULL,
    dlq_offset     BIGINT      NOT NULL,
    timestamp_ms   BIGINT,
    key            BYTEA,
    value          BYTEA,
    headers        BYTEA       NOT NULL,
    state          TEXT        NOT NULL, -- what else is known of the record, as JSON
    sqlstate       TEXT        NOT NULL,
    error          TEXT        NOT NULL,
    first_try      TIMESTAMPTZ NOT NULL,
    last_try       TIMESTAMPTZ NOT NULL,
    tries          INT         NOT NULL DEFAULT 1,
    retry_at       TIMESTAMPTZ NOT NULL,
    CONSTRAINT quarantine_position UNIQUE (incarnation_id, partition, dlq_offset)
);
ALTER TABLE dlq.quarantine ALTER COLUMN value SET STORAGE EXTERNAL, ALTER COLUMN headers SET STORAGE EXTERNAL;
CREATE INDEX idx_quarantine_first_try ON dlq.quarantine (first_try, id);
CREATE INDEX idx_quarantine_topic ON dlq.quarantine (dlq_topic_id);
CREATE INDEX idx_quarantine_retry_at ON dlq.quarantine (retry_at);
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'dlq_rw') THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON dlq.quarantine TO dlq_rw;
    END IF;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'dlq_ro') THEN
        GRANT SELECT ON dlq.quarantine TO dlq_ro;
    END IF;
END;
$$;
