-- Dead letters of the last 24 hours that name the position at which their record failed. The primary key decides which
-- message is the first of equal dead letters.
CREATE TABLE dlq.recent_records (
    digest     UUID        PRIMARY KEY, -- of everything that must be equal
    message_id UUID        NOT NULL,    -- the message that counts its repeats
    stored_at  TIMESTAMPTZ NOT NULL
);
CREATE INDEX idx_recent_records_stored ON dlq.recent_records USING brin (stored_at);

-- Messages that have repeats, or are repeats of a message that was final. A row of a message that no longer exists is
-- deleted later.
CREATE TABLE dlq.repeats (
    message_id UUID     PRIMARY KEY,
    repeat_of  UUID,                        -- the first message of the same record
    duplicates INT      NOT NULL DEFAULT 0, -- further dead letters that were counted
    partitions INT[]    NOT NULL DEFAULT '{}', -- positions of the latest of them, the latest first
    offsets    BIGINT[] NOT NULL DEFAULT '{}'
);

DO $$ BEGIN
    IF to_regrole('dlq_rw') IS NOT NULL THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON dlq.recent_records, dlq.repeats TO dlq_rw;
    END IF;
    IF to_regrole('dlq_ro') IS NOT NULL THEN
        GRANT SELECT ON dlq.recent_records, dlq.repeats TO dlq_ro;
    END IF;
END $$;
