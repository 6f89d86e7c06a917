-- dlq-db: how many messages arrived in each minute, by error group and in total.

SET LOCAL lock_timeout = '5s'; -- see 004

-- The statement that stores the first document of a message counts the message here, as in dlq.activity, so that
-- storing messages does not write this table. The same statement deletes rows after a day.
CREATE TABLE dlq.group_minutes (
    group_id       UUID        NOT NULL,
    at             TIMESTAMPTZ NOT NULL, -- beginning of the minute
    original_topic TEXT        NOT NULL,
    messages       BIGINT      NOT NULL,
    PRIMARY KEY (group_id, at, original_topic)
) WITH (fillfactor = 50);
CREATE INDEX idx_group_minutes_at ON dlq.group_minutes (at);

ALTER TABLE dlq.activity DROP CONSTRAINT activity_minutes_check,
    ADD CONSTRAINT activity_minutes_check CHECK (minutes IN (1, 5, 60));

DO $$ BEGIN
    IF to_regrole('dlq_rw') IS NOT NULL THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON dlq.group_minutes TO dlq_rw;
    END IF;
    IF to_regrole('dlq_ro') IS NOT NULL THEN
        GRANT SELECT ON dlq.group_minutes TO dlq_ro;
    END IF;
END $$;
