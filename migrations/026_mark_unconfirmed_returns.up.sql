-- dlq-db: returns that arrive in a dead-letter topic that has nothing to do with their
-- parent's. They inherit their attempt's count and change no outcome.

CREATE TABLE dlq.unconfirmed_returns (
    child_id    UUID        PRIMARY KEY,
    attempt_id  UUID        NOT NULL,
    parent_id   UUID        NOT NULL,
    by_content  BOOLEAN     NOT NULL, -- known by key and value, not by headers
    returned_at TIMESTAMPTZ NOT NULL
);

-- As with dlq.returns, one message only is known by content as an attempt's return.
CREATE UNIQUE INDEX idx_unconfirmed_returns_content ON dlq.unconfirmed_returns (attempt_id) WHERE by_content;

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'dlq_rw') THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON dlq.unconfirmed_returns TO dlq_rw;
    END IF;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'dlq_ro') THEN
        GRANT SELECT ON dlq.unconfirmed_returns TO dlq_ro;
    END IF;
END;
$$;
