-- dlq-db: attempts whose record was not the message's own, and the rules that say
-- where dead letters belong.

SET LOCAL lock_timeout = '5s'; -- see 011

-- How the record of an attempt differs from its message's. It is written with the
-- claim and stays for as long as the message's history does.
CREATE TABLE dlq.edits (
    message_id   UUID        NOT NULL,
    attempt_id   UUID        NOT NULL,
    target_topic TEXT,                 -- NULL: the original topic
    set_value    BOOLEAN     NOT NULL,
    value        BYTEA,
    set_key      BOOLEAN     NOT NULL,
    key          BYTEA,
    set_headers  BOOLEAN     NOT NULL,
    headers      BYTEA,                -- framed as those of dlq_messages
    patch        BYTEA,                -- JSON Patch of a redrive; its values are not kept
    record_hash  BIGINT      NOT NULL, -- of key and value as they were sent; 0 for none
    created_at   TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (message_id, attempt_id)
);

-- One row: every change counts the version up and must know the one before.
CREATE TABLE dlq.topic_mapping (
    one        BOOLEAN     PRIMARY KEY DEFAULT true CONSTRAINT chk_topic_mapping_one CHECK (one),
    version    BIGINT      NOT NULL,
    rules      JSONB       NOT NULL, -- [{pattern, original}] in their order
    updated_at TIMESTAMPTZ,          -- NULL: nobody has set any
    updated_by TEXT
);

INSERT INTO dlq.topic_mapping (version, rules) VALUES (0, '[]');

-- A retry with a patch has a name of its own: a program that knows no patches must
-- not send its messages as they are.
ALTER TABLE dlq.redrives DROP CONSTRAINT chk_redrives_action,
    ADD CONSTRAINT chk_redrives_action CHECK (action IN ('retry', 'retry_patched', 'requeue', 'dead', 'delete', 'map'));

-- Who may see only some topics lists the redrives of his own.
CREATE INDEX idx_redrives_actor ON dlq.redrives (actor, created_at, id);

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'dlq_rw') THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON dlq.edits TO dlq_rw;
        GRANT SELECT, UPDATE ON dlq.topic_mapping TO dlq_rw;
    END IF;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'dlq_ro') THEN
        GRANT SELECT ON dlq.edits, dlq.topic_mapping TO dlq_ro;
    END IF;
END;
$$;
