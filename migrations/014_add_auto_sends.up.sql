-- dlq-db: what automatic retry has sent lately. It is kept only with redrive.auto.max_return_share, to pause topics
-- whose messages fail again.

-- The original topics that automatic retry has sent to. One process at a time retries the messages of a topic, so that
-- the number of sent messages without a known outcome has one limit, however many processes there are.
CREATE TABLE dlq.auto_topics (
    topic            TEXT        PRIMARY KEY,
    owner            UUID,
    lease_expires_at TIMESTAMPTZ,
    paused_until     TIMESTAMPTZ, -- stays after the pause: only what was sent later counts for the next pause
    pause_reason     TEXT
) WITH (fillfactor = 50);

-- The messages that were claimed to be sent, each with its latest automatic attempt. A row is inserted before the record
-- is sent, and deleted when it is too old to count.
CREATE TABLE dlq.auto_sends (
    message_id UUID        PRIMARY KEY,
    attempt_id UUID        NOT NULL,
    topic      TEXT        NOT NULL, -- original topic
    sent_at    TIMESTAMPTZ NOT NULL
);
CREATE INDEX idx_auto_sends_topic ON dlq.auto_sends (topic, sent_at);

DO $$ BEGIN
    IF to_regrole('dlq_rw') IS NOT NULL THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON dlq.auto_topics, dlq.auto_sends TO dlq_rw;
    END IF;
    IF to_regrole('dlq_ro') IS NOT NULL THEN
        GRANT SELECT ON dlq.auto_topics, dlq.auto_sends TO dlq_ro;
    END IF;
END $$;
