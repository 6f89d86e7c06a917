-- dlq-db: the dead letters of share groups (KIP-1191): what the broker wrote twice is one message, and the record to
-- which a dead letter points is stored with the message.

-- One row for each message that a share group's configuration explains. A row of a message that no longer exists is
-- deleted later.
CREATE TABLE dlq.share_records (
    message_id  UUID        PRIMARY KEY,
    share_group TEXT        NOT NULL,
    -- The record that failed.
    topic       TEXT        NOT NULL,
    partition   INT         NOT NULL,
    position    BIGINT      NOT NULL,
    digest      BYTEA       NOT NULL, -- SHA-256 of key and value of the dead letter
    last_death  TIMESTAMPTZ,          -- timestamp of the latest of these dead letters
    duplicates  INT         NOT NULL DEFAULT 0, -- further dead letters of the same record
    state       TEXT        NOT NULL DEFAULT 'waiting'
        CONSTRAINT chk_share_records_state CHECK (state IN ('waiting', 'completed', 'gone', 'refused')),
    reason      TEXT,                 -- why the record was not read
    reason_at   TIMESTAMPTZ,          -- since when that is the reason
    tries       INT         NOT NULL DEFAULT 0,
    due_at      TIMESTAMPTZ,          -- next try to read the record; NULL: none
    dlq_topic_id INT,                 -- dead-letter topic of the message
    -- Whether dlq.activity counts the message as an arrival from before its record was read, which may make it a return.
    counted     BOOLEAN     NOT NULL DEFAULT false
);
CREATE INDEX idx_share_records_position ON dlq.share_records (topic, partition, position, share_group, dlq_topic_id);
-- Dead letters may name any position, so their statistics must not make PostgreSQL scan the table for a position.
ALTER TABLE dlq.share_records ALTER COLUMN position SET (n_distinct = -1);
CREATE INDEX idx_share_records_open ON dlq.share_records (message_id) WHERE state IN ('waiting', 'refused');
CREATE INDEX idx_share_records_due ON dlq.share_records (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX idx_share_records_new ON dlq.share_records (due_at) WHERE due_at IS NOT NULL AND tries = 0;

DO $$ BEGIN
    IF to_regrole('dlq_rw') IS NOT NULL THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON dlq.share_records TO dlq_rw;
        GRANT UPDATE (key, value, headers) ON dlq.records TO dlq_rw;
        GRANT INSERT ON dlq.late_messages TO dlq_rw;
    END IF;
    IF to_regrole('dlq_ro') IS NOT NULL THEN
        GRANT SELECT ON dlq.share_records TO dlq_ro;
    END IF;
END $$;
