-- dlq-db: messages that are indexed without their payload or key, because the schema could not be read.

-- The indexer decodes these messages again when they are due. It deletes the row of a message that no longer exists
-- when the row is due.
CREATE TABLE dlq.undecoded_messages (
    message_id UUID        PRIMARY KEY,
    tries      INT         NOT NULL DEFAULT 1,
    due_at     TIMESTAMPTZ NOT NULL
);
CREATE INDEX undecoded_messages_due ON dlq.undecoded_messages (due_at);

DO $$ BEGIN
    IF to_regrole('dlq_rw') IS NOT NULL THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON dlq.undecoded_messages TO dlq_rw;
    END IF;
    IF to_regrole('dlq_ro') IS NOT NULL THEN
        GRANT SELECT ON dlq.undecoded_messages TO dlq_ro;
    END IF;
END $$;
