-- dlq-db: how much comes in over time.

-- How many messages of each original topic arrived, and how many of them came back
-- from a replay, by the five minutes and by the hour, in UTC, in which they were
-- stored. Whoever keeps the first document of a message counts it here, in the same
-- statement: so those who store messages wait for nobody, and nothing is counted twice
-- when all documents are made anew. Messages that are deleted, archived or given
-- another topic stay counted where they are. Old rows are deleted, those of five
-- minutes after hours and those of hours after days.
CREATE TABLE dlq.activity (
    original_topic TEXT        NOT NULL,
    minutes        SMALLINT    NOT NULL CHECK (minutes IN (5, 60)),
    at             TIMESTAMPTZ NOT NULL,
    arrived        BIGINT      NOT NULL,
    returned       BIGINT      NOT NULL,
    PRIMARY KEY (original_topic, minutes, at)
) WITH (fillfactor = 50);
CREATE INDEX idx_activity_at ON dlq.activity (minutes, at);

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'dlq_rw') THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON dlq.activity TO dlq_rw;
    END IF;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'dlq_ro') THEN
        GRANT SELECT ON dlq.activity TO dlq_ro;
    END IF;
END;
$$;
