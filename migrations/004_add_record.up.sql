-- dlq-db: the record as the dead-letter topic had it, where it came from, and
-- the state of its retries. Every column may be missing, so that a plain INSERT
-- of the ten columns of 002 stays valid.

-- The names of dead-letter topics, and their lives: a topic that is deleted and
-- made again starts over at offset 0 under another id.
CREATE TABLE dlq.topics (
    id   INT  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
);

CREATE TABLE dlq.topic_incarnations (
    id         INT         GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    topic_id   INT         NOT NULL REFERENCES dlq.topics (id),
    kafka_id   TEXT        NOT NULL,
    first_seen TIMESTAMPTZ NOT NULL DEFAULT now(),
    UNIQUE (topic_id, kafka_id)
);

-- The next offset to store of every partition. It moves in the statement that
-- stores the messages, which is what makes ingest exactly once.
CREATE TABLE dlq.ingest_positions (
    incarnation_id INT    NOT NULL REFERENCES dlq.topic_incarnations (id),
    partition      INT    NOT NULL,
    next_offset    BIGINT NOT NULL,
    PRIMARY KEY (incarnation_id, partition)
) WITH (fillfactor = 50);

DO $$
DECLARE
    v_table TEXT;
BEGIN
    FOREACH v_table IN ARRAY ARRAY['dlq.dlq_messages', 'dlq.dlq_messages_archive'] LOOP
        EXECUTE format($ddl$
            ALTER TABLE %s
                -- The truth for every replay. key and value are NULL for Kafka's
                -- null; headers hold order, repeats and nulls in one framing. A
                -- row without dlq_topic_id was put in by SQL: its payload is all.
                ADD COLUMN key                BYTEA,
                ADD COLUMN value              BYTEA,
                ADD COLUMN headers            BYTEA,
                -- Why payload is NULL although there is a value.
                ADD COLUMN payload_note       TEXT,
                -- Set only for values that were too large to store.
                ADD COLUMN omitted_size       BIGINT,
                ADD COLUMN omitted_sha256     BYTEA,

                ADD COLUMN dlq_topic_id       INT,
                ADD COLUMN dlq_incarnation_id INT,
                ADD COLUMN dlq_partition      INT,
                ADD COLUMN dlq_offset         BIGINT,
                ADD COLUMN dlq_timestamp      TIMESTAMPTZ,

                ADD COLUMN original_partition INT,
                ADD COLUMN original_offset    BIGINT,
                ADD COLUMN original_timestamp TIMESTAMPTZ,
                ADD COLUMN origin_confidence  TEXT,
                ADD COLUMN consumer_group     TEXT,
                ADD COLUMN consumer_attempts  INT,
                ADD COLUMN dialect            TEXT,
                ADD COLUMN error_class        TEXT,

                ADD COLUMN parent_id          UUID,
                ADD COLUMN root_id            UUID,

                -- Counts attempts for ever; retry_count starts anew on a requeue.
                ADD COLUMN attempt_no         INT      NOT NULL DEFAULT 0,
                -- Attempts given back in a row.
                ADD COLUMN rescues            SMALLINT NOT NULL DEFAULT 0,
                -- The intent of the running attempt; claim_topic is NULL for the
                -- original topic. No index may name these: they change with every
                -- attempt.
                ADD COLUMN claim_id           UUID,
                ADD COLUMN claim_expires_at   TIMESTAMPTZ,
                ADD COLUMN claim_topic        TEXT,
                ADD COLUMN claim_topic_id     TEXT,
                ADD COLUMN claim_partition    INT,
                ADD COLUMN claim_end_offset   BIGINT,
                -- The target log cannot tell; only an operator can end it.
                ADD COLUMN unsettled          BOOLEAN  NOT NULL DEFAULT false,

                ADD COLUMN next_attempt_at          TIMESTAMPTZ,
                ADD COLUMN last_publish_error       TEXT,
                ADD COLUMN last_publish_error_class TEXT,
                ADD COLUMN outcome                  TEXT,

                -- Bytes go out of line uncompressed, so that an UPDATE copies three
                -- pointers instead of the record; what lists show stays inline.
                ALTER COLUMN payload SET STORAGE EXTERNAL,
                ALTER COLUMN value   SET STORAGE EXTERNAL,
                ALTER COLUMN headers SET STORAGE EXTERNAL,
                ALTER COLUMN key           SET STORAGE MAIN,
                ALTER COLUMN error_message SET STORAGE MAIN,
                SET (toast_tuple_target = 512)
        $ddl$, v_table);
    END LOOP;
END;
$$;

ALTER TABLE dlq.dlq_messages SET (
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.02
);

ALTER TABLE dlq.dlq_messages_archive
    ADD COLUMN archived_at TIMESTAMPTZ NOT NULL DEFAULT now();

-- The three indexes keep their names and leading columns; with (created_at, id)
-- behind them they serve pages and claims in order. Ascending on purpose: new
-- rows arrive at the right edge, lists scan backwards.
DROP INDEX dlq.idx_dlq_messages_original_topic, dlq.idx_dlq_messages_status, dlq.idx_dlq_messages_created_at;
CREATE INDEX idx_dlq_messages_original_topic ON dlq.dlq_messages (original_topic, created_at, id);
CREATE INDEX idx_dlq_messages_status ON dlq.dlq_messages (status, created_at, id);
CREATE INDEX idx_dlq_messages_created_at ON dlq.dlq_messages (created_at, id);
CREATE INDEX idx_dlq_messages_dlq_topic ON dlq.dlq_messages (dlq_topic_id, created_at, id);
CREATE INDEX idx_dlq_messages_archive_archived_at ON dlq.dlq_messages_archive (archived_at);

-- One row an attempt: what is known of how a message was sent back.
CREATE TABLE dlq.attempts (
    message_id       UUID        NOT NULL,
    attempt_no       INT         NOT NULL,
    attempt_id       UUID        NOT NULL,
    retry_count      INT         NOT NULL, -- of the message, with this attempt
    actor            TEXT        NOT NULL,
    started_at       TIMESTAMPTZ NOT NULL,
    ended_at         TIMESTAMPTZ NOT NULL,
    from_status      TEXT        NOT NULL,
    to_status        TEXT        NOT NULL,
    error_class      TEXT,
    error            TEXT,
    target_topic     TEXT        NOT NULL,
    target_partition INT,
    target_offset    BIGINT,
    PRIMARY KEY (message_id, attempt_no)
);

-- Moves as 003 does, with every column named and archived_at written. It walks
-- each status once along its index, and leaves the number of rows in the
-- session's setting dlq.archived for the caller.
CREATE OR REPLACE PROCEDURE dlq.archive_old_dlq_messages(
    p_retention_days INT DEFAULT 30,
    p_batch_size INT DEFAULT 1000
)
LANGUAGE plpgsql
AS $$
DECLARE
    v_cutoff TIMESTAMPTZ;
    v_status TEXT;
    v_after_time TIMESTAMPTZ;
    v_after_id UUID;
    v_picked INT;
    v_archived BIGINT := 0;
    v_batch BIGINT;
BEGIN
    IF p_retention_days IS NULL OR p_retention_days < 0 THEN
        RAISE EXCEPTION 'p_retention_days must not be negative' USING ERRCODE = '22023';
    END IF;
    IF p_batch_size IS NULL OR p_batch_size < 1 THEN
        RAISE EXCEPTION 'p_batch_size must be positive' USING ERRCODE = '22023';
    END IF;
    v_cutoff := NOW() - make_interval(days => p_retention_days);
    PERFORM set_config('dlq.archived', '0', false);

    FOREACH v_status IN ARRAY ARRAY['RESOLVED', 'DEAD'] LOOP
        v_after_time := '-infinity';
        v_after_id := '00000000-0000-0000-0000-000000000000';
        LOOP
            WITH picked AS MATERIALIZED (
                SELECT m.id, m.created_at FROM dlq.dlq_messages m
                WHERE m.status = v_status AND m.updated_at < v_cutoff
                  AND (m.created_at, m.id) > (v_after_time, v_after_id)
                ORDER BY m.created_at, m.id
                LIMIT p_batch_size FOR UPDATE SKIP LOCKED
            ), moved AS (
                DELETE FROM dlq.dlq_messages m USING picked p WHERE m.id = p.id
                RETURNING m.*
            ), kept AS (
                INSERT INTO dlq.dlq_messages_archive
                    (id, original_topic, error_message, retry_count, max_retries, payload, status,
                     created_at, updated_at, last_retry_at,
                     key, value, headers, payload_note, omitted_size, omitted_sha256,
                     dlq_topic_id, dlq_incarnation_id, dlq_partition, dlq_offset, dlq_timestamp,
                     original_partition, original_offset, original_timestamp, origin_confidence,
                     consumer_group, consumer_attempts, dialect, error_class, parent_id, root_id,
                     attempt_no, rescues, claim_id, claim_expires_at, claim_topic, claim_topic_id, claim_partition,
                     claim_end_offset, unsettled, next_attempt_at, last_publish_error,
                     last_publish_error_class, outcome, archived_at)
                SELECT id, original_topic, error_message, retry_count, max_retries, payload, status,
                     created_at, updated_at, last_retry_at,
                     key, value, headers, payload_note, omitted_size, omitted_sha256,
                     dlq_topic_id, dlq_incarnation_id, dlq_partition, dlq_offset, dlq_timestamp,
                     original_partition, original_offset, original_timestamp, origin_confidence,
                     consumer_group, consumer_attempts, dialect, error_class, parent_id, root_id,
                     attempt_no, rescues, claim_id, claim_expires_at, claim_topic, claim_topic_id, claim_partition,
                     claim_end_offset, unsettled, next_attempt_at, last_publish_error,
                     last_publish_error_class, outcome, clock_timestamp()
                FROM moved
                RETURNING 1
            )
            SELECT count(*), (SELECT count(*) FROM kept),
                   max(created_at), (array_agg(id ORDER BY created_at DESC, id DESC))[1]
            INTO v_picked, v_batch, v_after_time, v_after_id
            FROM picked;

            v_archived := v_archived + v_batch;
            PERFORM set_config('dlq.archived', v_archived::text, false);
            EXIT WHEN v_picked = 0;
            COMMIT;
        END LOOP;
        COMMIT;
    END LOOP;

    RAISE NOTICE 'Archived % DLQ messages older than % days', v_archived, p_retention_days;
END;
$$;
