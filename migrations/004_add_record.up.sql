-- dlq-db: the records of dead-letter topics, their origins, and the attempts to send them back. A plain INSERT of the
-- ten columns of 002 stays valid.

-- A statement that waits for a table makes every later one wait. It gives up instead, and the migration can be run
-- again.
SET LOCAL lock_timeout = '5s';

-- Steps 004 to 033 of the numbering before v0.1.0 left no such mark: see pkg/migrate.
COMMENT ON TABLE dlq_migrations.schema_migrations IS 'dlq-manager v0.1.0 or later';

-- Names of dead-letter topics, and the topics that had them: a topic that is deleted and created again starts at
-- offset 0 under another id.
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

-- The next offset to store of every partition. It moves in the transaction that stores the messages, which makes
-- ingest exactly once.
CREATE TABLE dlq.ingest_positions (
    incarnation_id INT    NOT NULL REFERENCES dlq.topic_incarnations (id),
    partition      INT    NOT NULL,
    next_offset    BIGINT NOT NULL,
    -- The last record that was read below next_offset, only where the broker gives topics no ids: another record
    -- there means another log.
    mark_offset    BIGINT,
    mark_time      BIGINT, -- milliseconds
    mark_crc       BIGINT, -- of the record's batch
    PRIMARY KEY (incarnation_id, partition)
) WITH (fillfactor = 50);

-- One row: every change counts the version up and must know the one before.
CREATE TABLE dlq.topic_mapping (
    one        BOOLEAN     PRIMARY KEY DEFAULT true CONSTRAINT chk_topic_mapping_one CHECK (one),
    version    BIGINT      NOT NULL,
    rules      JSONB       NOT NULL, -- [{pattern, original}] in their order
    updated_at TIMESTAMPTZ,          -- NULL: never set
    updated_by TEXT
);
INSERT INTO dlq.topic_mapping (version, rules) VALUES (0, '[]');

ALTER TABLE dlq.dlq_messages
    -- The bytes of a record that was put in by SQL; those of all others are in dlq.records. NULL is Kafka's null;
    -- headers hold order, repeats and nulls in one framing.
    ADD COLUMN key BYTEA, ADD COLUMN value BYTEA, ADD COLUMN headers BYTEA,
    ADD COLUMN payload_note TEXT, -- why payload is NULL although there is a value
    -- Set only for values that were too large to store.
    ADD COLUMN omitted_size BIGINT, ADD COLUMN omitted_sha256 BYTEA,
    -- The record in the dead-letter topic. NULL in rows that were put in by SQL.
    ADD COLUMN dlq_topic_id INT, ADD COLUMN dlq_incarnation_id INT, ADD COLUMN dlq_partition INT,
    ADD COLUMN dlq_offset BIGINT, ADD COLUMN dlq_timestamp TIMESTAMPTZ,
    -- The record in the original topic, and what failed there.
    ADD COLUMN original_partition INT, ADD COLUMN original_offset BIGINT, ADD COLUMN original_timestamp TIMESTAMPTZ,
    ADD COLUMN origin_confidence TEXT, ADD COLUMN consumer_group TEXT, ADD COLUMN consumer_attempts INT,
    ADD COLUMN dialect TEXT, ADD COLUMN error_class TEXT,
    -- The message whose attempt came back as this one, and the first of all.
    ADD COLUMN parent_id UUID, ADD COLUMN root_id UUID,
    ADD COLUMN attempt_no INT NOT NULL DEFAULT 0,   -- counts all attempts; retry_count starts at 0 again with a requeue
    ADD COLUMN rescues SMALLINT NOT NULL DEFAULT 0, -- attempts given back in a row
    -- The intent of the running attempt; claim_topic is NULL for the original topic. No index may name these: they
    -- change with every attempt.
    ADD COLUMN claim_id UUID, ADD COLUMN claim_expires_at TIMESTAMPTZ, ADD COLUMN claim_topic TEXT,
    ADD COLUMN claim_topic_id TEXT, ADD COLUMN claim_partition INT, ADD COLUMN claim_end_offset BIGINT,
    -- The target log does not say whether the record arrived; only an operator can end it.
    ADD COLUMN unsettled BOOLEAN NOT NULL DEFAULT false,
    ADD COLUMN next_attempt_at TIMESTAMPTZ, ADD COLUMN last_publish_error TEXT, ADD COLUMN last_publish_error_class TEXT,
    ADD COLUMN outcome TEXT, ADD COLUMN claim_redrive_id UUID,
    -- A number of key and value together; NULL when either is null or empty. It recognises a record whose headers a
    -- framework has dropped.
    ADD COLUMN record_hash BIGINT,
    ADD COLUMN group_id UUID,
    -- The record's timestamp in milliseconds, where it lies outside the years 1970 to 9999 and dlq_timestamp is
    -- therefore NULL.
    ADD COLUMN dlq_timestamp_ms BIGINT,
    -- What a message lacks of its record: {"limit": NAME} for one over a limit of ingest, {"unreadable": REASON,
    -- "last_offset": N} for offsets that cannot be read.
    ADD COLUMN defect JSONB,
    -- Bytes go out of line uncompressed, so that an UPDATE copies three pointers instead of the record. Everything
    -- else stays in its row: an UPDATE would move short columns out, each to a row and an index entry, and every list
    -- would fetch them again.
    ALTER COLUMN payload SET STORAGE EXTERNAL, ALTER COLUMN value SET STORAGE EXTERNAL,
    ALTER COLUMN headers SET STORAGE EXTERNAL, ALTER COLUMN key SET STORAGE MAIN,
    ALTER COLUMN error_message SET STORAGE MAIN, ALTER COLUMN original_topic SET STORAGE MAIN,
    ALTER COLUMN status SET STORAGE MAIN, ALTER COLUMN payload_note SET STORAGE MAIN,
    ALTER COLUMN origin_confidence SET STORAGE MAIN, ALTER COLUMN consumer_group SET STORAGE MAIN,
    ALTER COLUMN dialect SET STORAGE MAIN, ALTER COLUMN error_class SET STORAGE MAIN,
    ALTER COLUMN claim_topic SET STORAGE MAIN, ALTER COLUMN claim_topic_id SET STORAGE MAIN,
    ALTER COLUMN last_publish_error_class SET STORAGE MAIN, ALTER COLUMN outcome SET STORAGE MAIN,
    SET (toast_tuple_target = 512, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0,
        autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.02);

-- The three indexes of 002 keep their names and leading columns; with (created_at, id) they serve pages and claims in
-- order. Ascending: new rows arrive at the right edge, lists scan backwards.
DROP INDEX dlq.idx_dlq_messages_original_topic, dlq.idx_dlq_messages_status, dlq.idx_dlq_messages_created_at;
CREATE INDEX idx_dlq_messages_original_topic ON dlq.dlq_messages (original_topic, created_at, id);
CREATE INDEX idx_dlq_messages_status ON dlq.dlq_messages (status, created_at, id);
CREATE INDEX idx_dlq_messages_created_at ON dlq.dlq_messages (created_at, id);
CREATE INDEX idx_dlq_messages_dlq_topic ON dlq.dlq_messages (dlq_topic_id, created_at, id);
-- A failed message waits for its next automatic attempt here; one that was never attempted has no such time and is
-- not in it, so that arrivals cost nothing. By topic, because messages of topics without automatic retries stay in
-- it.
CREATE INDEX idx_dlq_messages_due ON dlq.dlq_messages (original_topic, next_attempt_at)
    WHERE status = 'PENDING' AND next_attempt_at IS NOT NULL;
CREATE INDEX idx_dlq_messages_root ON dlq.dlq_messages (root_id) WHERE root_id IS NOT NULL;
CREATE INDEX idx_dlq_messages_group ON dlq.dlq_messages (group_id, created_at, id) WHERE group_id IS NOT NULL;
-- The oldest pending message of a topic.
CREATE INDEX idx_dlq_messages_pending ON dlq.dlq_messages (original_topic, created_at, id) WHERE status = 'PENDING';
-- Messages that were never retried are in no list that is sorted by it.
CREATE INDEX idx_dlq_messages_last_retry ON dlq.dlq_messages (last_retry_at, id) WHERE last_retry_at IS NOT NULL;
-- Rows that were put in by SQL wait here for their error group.
CREATE INDEX idx_dlq_messages_ungrouped ON dlq.dlq_messages (created_at, id) WHERE group_id IS NULL;
-- Final messages that say they changed before they came: aged by hand, or put in with a time yet to come. There are
-- hardly ever any.
CREATE INDEX idx_dlq_messages_backdated ON dlq.dlq_messages (status, updated_at, id)
    WHERE updated_at < created_at AND status IN ('RESOLVED', 'DEAD');
-- The predicate is in a form that only this index answers: see claimQuery in the store.
CREATE INDEX idx_dlq_messages_claimed_hash ON dlq.dlq_messages (record_hash) WHERE (status = 'RETRYING') IS TRUE;

-- The function of 001 leaves a row alone whose updated_at has just been set; not to call it is cheaper. Filling the
-- payload is not a change of the message: retention does not start again.
CREATE OR REPLACE TRIGGER trg_dlq_messages_updated_at
    BEFORE UPDATE OF id, original_topic, error_message, retry_count, max_retries,
                     payload, status, created_at, updated_at, last_retry_at
    ON dlq.dlq_messages
    FOR EACH ROW
    WHEN (NEW.updated_at IS NOT DISTINCT FROM OLD.updated_at
        AND (OLD.payload_note = 'pending' AND NEW.payload_note IS DISTINCT FROM 'pending') IS NOT TRUE)
    EXECUTE FUNCTION dlq.update_updated_at();

-- The bytes of records. A row is written once, with its message, and goes when the message is deleted or purged: an
-- attempt and the archiver write the message alone.
CREATE TABLE dlq.records (
    message_id UUID PRIMARY KEY,
    key        BYTEA,
    value      BYTEA,
    headers    BYTEA
) WITH (toast_tuple_target = 8160, autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE dlq.records
    ALTER COLUMN key     SET STORAGE MAIN,
    ALTER COLUMN value   SET STORAGE EXTERNAL,
    ALTER COLUMN headers SET STORAGE EXTERNAL;

-- Messages with the bytes of their records, for reading.
CREATE VIEW dlq.messages AS
SELECT
    m.id, m.original_topic, m.error_message, m.retry_count, m.max_retries, m.payload, m.status,
    m.created_at, m.updated_at, m.last_retry_at, CASE WHEN r.message_id IS NULL THEN m.key ELSE
    r.key END AS key, CASE WHEN r.message_id IS NULL THEN m.value ELSE r.value END AS value, CASE
    WHEN r.message_id IS NULL THEN m.headers ELSE r.headers END AS headers, m.payload_note,
    m.omitted_size, m.omitted_sha256, m.dlq_topic_id, m.dlq_incarnation_id, m.dlq_partition,
    m.dlq_offset, m.dlq_timestamp, m.original_partition, m.original_offset, m.original_timestamp,
    m.origin_confidence, m.consumer_group, m.consumer_attempts, m.dialect, m.error_class,
    m.parent_id, m.root_id, m.attempt_no, m.rescues, m.claim_id, m.claim_expires_at, m.claim_topic,
    m.claim_topic_id, m.claim_partition, m.claim_end_offset, m.unsettled, m.next_attempt_at,
    m.last_publish_error, m.last_publish_error_class, m.outcome, m.claim_redrive_id, m.record_hash,
    m.group_id, m.dlq_timestamp_ms, m.defect
FROM dlq.dlq_messages m LEFT JOIN dlq.records r ON r.message_id = m.id;

-- Messages whose payload_note is 'pending': one row for each batch that was stored.
CREATE TABLE dlq.payload_queue (
    id          BIGINT      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stored_at   TIMESTAMPTZ NOT NULL DEFAULT now(), -- not later than created_at of any of the messages
    taken_until TIMESTAMPTZ NOT NULL DEFAULT '-infinity',
    messages    INT         NOT NULL,
    message_ids UUID[]      NOT NULL
);
ALTER TABLE dlq.payload_queue ALTER COLUMN message_ids SET STORAGE EXTERNAL; -- ids do not compress

-- Every message that was created before payload_until has its payload, or payload_note says why not.
CREATE VIEW dlq.payload_progress AS
SELECT coalesce(min(stored_at), clock_timestamp() - interval '1 second') AS payload_until,
    coalesce(sum(messages), 0)::bigint AS messages_pending
FROM dlq.payload_queue;

-- Records that PostgreSQL refused to store as messages. A row is made in the statement that moves the position past
-- its record, and goes in the statement that stores the message; its id becomes the message's.
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

-- Attempts that ended.
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
    redrive_id       UUID,
    verdict          TEXT,
    target_topic_id  TEXT,
    record_hash      BIGINT, -- as of dlq_messages
    PRIMARY KEY (message_id, attempt_no)
);
CREATE INDEX idx_attempts_record_hash ON dlq.attempts (record_hash, ended_at)
    WHERE record_hash IS NOT NULL AND to_status = 'RESOLVED';

-- How the record of an attempt differs from its message's. It is written with the claim and stays for as long as the
-- message's history does.
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
CREATE INDEX idx_edits_record_hash ON dlq.edits (record_hash) WHERE record_hash <> 0;
