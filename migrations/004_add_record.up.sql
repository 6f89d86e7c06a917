-- dlq-db: the records of dead-letter topics, their origins, and the attempts to send them back. A plain INSERT of the
-- ten columns of 002 stays valid.

-- When a statement waits for a lock on a table, all later statements on the table wait for it. So it gives up after
-- this time, and the migration can be run again.
SET LOCAL lock_timeout = '5s';

-- Each earlier numbering of the migrations left another comment, or none; see pkg/migrate.
COMMENT ON TABLE dlq_migrations.schema_migrations IS 'numbering of v0.1.0';

-- The names of dead-letter topics, and the topics that have had each name: a topic that is deleted and created again
-- has another id, and its offsets start at 0.
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

-- The next offset to store of every partition. It changes in the transaction that stores the messages, so that each
-- record is stored exactly once.
CREATE TABLE dlq.ingest_positions (
    incarnation_id INT    NOT NULL REFERENCES dlq.topic_incarnations (id),
    partition      INT    NOT NULL,
    next_offset    BIGINT NOT NULL,
    -- The last record that was read before next_offset. It is stored only where the broker gives topics no ids: when
    -- another record is at this offset, the topic was created again.
    mark_offset    BIGINT,
    mark_time      BIGINT, -- milliseconds
    mark_crc       BIGINT, -- checksum of the batch that contains the record
    PRIMARY KEY (incarnation_id, partition)
) WITH (fillfactor = 50);

-- The table has one row, because each change increases the version and must know the previous one.
CREATE TABLE dlq.topic_mapping (
    one        BOOLEAN     PRIMARY KEY DEFAULT true CONSTRAINT chk_topic_mapping_one CHECK (one),
    version    BIGINT      NOT NULL,
    rules      JSONB       NOT NULL, -- list of {pattern, original}; the first match counts
    updated_at TIMESTAMPTZ,          -- NULL when rules were never set
    updated_by TEXT
);
INSERT INTO dlq.topic_mapping (version, rules) VALUES (0, '[]');

ALTER TABLE dlq.dlq_messages
    -- The bytes of the record of a message that was inserted by SQL. The bytes of all other records are in dlq.records.
    -- NULL is Kafka's null. The value of headers has all headers in their order, with repeated names and null values.
    ADD COLUMN key BYTEA, ADD COLUMN value BYTEA, ADD COLUMN headers BYTEA,
    ADD COLUMN payload_note TEXT, -- why payload is NULL although the record has a value
    -- Set only for a value that was too large to store.
    ADD COLUMN omitted_size BIGINT, ADD COLUMN omitted_sha256 BYTEA,
    -- The position of the record in the dead-letter topic. NULL when the message was inserted by SQL.
    ADD COLUMN dlq_topic_id INT, ADD COLUMN dlq_incarnation_id INT, ADD COLUMN dlq_partition INT,
    ADD COLUMN dlq_offset BIGINT, ADD COLUMN dlq_timestamp TIMESTAMPTZ,
    -- The position of the record in the original topic, and the failure there.
    ADD COLUMN original_partition INT, ADD COLUMN original_offset BIGINT, ADD COLUMN original_timestamp TIMESTAMPTZ,
    ADD COLUMN origin_confidence TEXT, ADD COLUMN consumer_group TEXT, ADD COLUMN consumer_attempts INT,
    ADD COLUMN dialect TEXT, ADD COLUMN error_class TEXT,
    -- The message whose record came back as this message, and the first message of that lineage.
    ADD COLUMN parent_id UUID, ADD COLUMN root_id UUID,
    ADD COLUMN attempt_no INT NOT NULL DEFAULT 0,   -- number of the last attempt; a requeue does not reset it
    ADD COLUMN rescues SMALLINT NOT NULL DEFAULT 0, -- attempts in a row that ended as rescues
    -- The claim of the message. claim_topic is NULL when the target is the original topic. No index may have these
    -- columns, because they change with every attempt.
    ADD COLUMN claim_id UUID, ADD COLUMN claim_expires_at TIMESTAMPTZ, ADD COLUMN claim_topic TEXT,
    ADD COLUMN claim_topic_id TEXT, ADD COLUMN claim_partition INT, ADD COLUMN claim_end_offset BIGINT,
    -- The target log cannot show whether the record was written; only an operator can end the claim.
    ADD COLUMN unsettled BOOLEAN NOT NULL DEFAULT false,
    ADD COLUMN next_attempt_at TIMESTAMPTZ, ADD COLUMN last_publish_error TEXT, ADD COLUMN last_publish_error_class TEXT,
    ADD COLUMN outcome TEXT, ADD COLUMN claim_redrive_id UUID,
    -- A hash of key and value together; NULL when either is null or empty. With the hash, a record that comes back is
    -- recognised even when a framework has dropped its headers.
    ADD COLUMN record_hash BIGINT,
    ADD COLUMN group_id UUID,
    -- The record's timestamp in milliseconds when it lies outside the years 1970 to 9999; then dlq_timestamp is NULL.
    ADD COLUMN dlq_timestamp_ms BIGINT,
    -- Which parts of its record a message lacks: {"limit": NAME} for a record over a limit of ingest, {"unreadable":
    -- REASON, "last_offset": N} for offsets that cannot be read.
    ADD COLUMN defect JSONB,
    -- The bytes are stored out of line and uncompressed, so that an UPDATE copies three pointers and not the record.
    -- All other columns stay in the row: out of line, each would cost a row and an index entry in every UPDATE, and
    -- each list would have to read them from there.
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

-- The three indexes of 002 keep their names and their leading columns. With created_at and id added, they also return
-- pages and claims in order. They are ascending, because new rows are then inserted at the end, and lists read them
-- backwards.
DROP INDEX dlq.idx_dlq_messages_original_topic, dlq.idx_dlq_messages_status, dlq.idx_dlq_messages_created_at;
CREATE INDEX idx_dlq_messages_original_topic ON dlq.dlq_messages (original_topic, created_at, id);
CREATE INDEX idx_dlq_messages_status ON dlq.dlq_messages (status, created_at, id);
CREATE INDEX idx_dlq_messages_created_at ON dlq.dlq_messages (created_at, id);
CREATE INDEX idx_dlq_messages_dlq_topic ON dlq.dlq_messages (dlq_topic_id, created_at, id);
-- Failed messages that wait for their next automatic attempt. Messages that were never attempted have no such time and
-- are not in the index, so that inserting messages does not cost more. It begins with the topic, because the messages
-- of topics without automatic retry stay in the index.
CREATE INDEX idx_dlq_messages_due ON dlq.dlq_messages (original_topic, next_attempt_at)
    WHERE status = 'PENDING' AND next_attempt_at IS NOT NULL;
CREATE INDEX idx_dlq_messages_root ON dlq.dlq_messages (root_id) WHERE root_id IS NOT NULL;
CREATE INDEX idx_dlq_messages_group ON dlq.dlq_messages (group_id, created_at, id) WHERE group_id IS NOT NULL;
-- Finds the oldest PENDING message of a topic.
CREATE INDEX idx_dlq_messages_pending ON dlq.dlq_messages (original_topic, created_at, id) WHERE status = 'PENDING';
-- For lists that are sorted by last_retry_at; they leave out messages that were never retried.
CREATE INDEX idx_dlq_messages_last_retry ON dlq.dlq_messages (last_retry_at, id) WHERE last_retry_at IS NOT NULL;
-- Messages that were inserted by SQL and have no error group yet.
CREATE INDEX idx_dlq_messages_ungrouped ON dlq.dlq_messages (created_at, id) WHERE group_id IS NULL;
-- Final messages whose updated_at is before their created_at: an operator changed their times by SQL, or they were
-- inserted with a created_at in the future. There are hardly ever any.
CREATE INDEX idx_dlq_messages_backdated ON dlq.dlq_messages (status, updated_at, id)
    WHERE updated_at < created_at AND status IN ('RESOLVED', 'DEAD');
-- The predicate is written in a form that only queries for this index use; see claimQuery in the store.
CREATE INDEX idx_dlq_messages_claimed_hash ON dlq.dlq_messages (record_hash) WHERE (status = 'RETRYING') IS TRUE;

-- The trigger fires only when the function of 001 would change updated_at, because not calling it is cheaper. It does
-- not fire when only the payload is filled: that is no change of the message, and must not start the retention again.
CREATE OR REPLACE TRIGGER trg_dlq_messages_updated_at
    BEFORE UPDATE OF id, original_topic, error_message, retry_count, max_retries,
                     payload, status, created_at, updated_at, last_retry_at
    ON dlq.dlq_messages
    FOR EACH ROW
    WHEN (NEW.updated_at IS NOT DISTINCT FROM OLD.updated_at
        AND (OLD.payload_note = 'pending' AND NEW.payload_note IS DISTINCT FROM 'pending') IS NOT TRUE)
    EXECUTE FUNCTION dlq.update_updated_at();

-- The bytes of records. A row is written once, together with its message, and deleted when the message is deleted or
-- purged. Attempts and the archiver do not write it.
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

-- The messages with the bytes of their records, for queries that read the bytes.
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

-- The messages whose payload_note is 'pending': one row for each batch that was stored.
CREATE TABLE dlq.payload_queue (
    id          BIGINT      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stored_at   TIMESTAMPTZ NOT NULL DEFAULT now(), -- not later than created_at of any message of the batch
    taken_until TIMESTAMPTZ NOT NULL DEFAULT '-infinity',
    messages    INT         NOT NULL,
    message_ids UUID[]      NOT NULL
);
ALTER TABLE dlq.payload_queue ALTER COLUMN message_ids SET STORAGE EXTERNAL; -- compressing ids saves nothing

-- Every message that was created before payload_until has its payload, or a payload_note that says why not.
CREATE VIEW dlq.payload_progress AS
SELECT coalesce(min(stored_at), clock_timestamp() - interval '1 second') AS payload_until,
    coalesce(sum(messages), 0)::bigint AS messages_pending
FROM dlq.payload_queue;

-- The records that PostgreSQL refused to store as messages. A row is inserted by the statement that moves the position
-- past the record, and deleted by the statement that stores the record as a message. The message gets the id of the
-- row.
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
    state          TEXT        NOT NULL, -- what else is known about the record, as JSON
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

-- Messages that are indexed without their payload or key, because the schema could not be read. The indexer decodes
-- them again when they are due. It deletes the row of a message that no longer exists when the row is due.
CREATE TABLE dlq.undecoded_messages (
    message_id UUID        PRIMARY KEY,
    tries      INT         NOT NULL DEFAULT 1,
    due_at     TIMESTAMPTZ NOT NULL
);
CREATE INDEX undecoded_messages_due ON dlq.undecoded_messages (due_at);

-- The dead letters of share groups (KIP-1191): what the broker wrote twice is one message, and the record to which a
-- dead letter points is stored with the message. One row for each message that a share group's configuration explains.
-- A row of a message that no longer exists is deleted later.
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

-- Attempts that have ended.
CREATE TABLE dlq.attempts (
    message_id       UUID        NOT NULL,
    attempt_no       INT         NOT NULL,
    attempt_id       UUID        NOT NULL,
    retry_count      INT         NOT NULL, -- retry count of the message including this attempt
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
    record_hash      BIGINT, -- see dlq_messages.record_hash
    PRIMARY KEY (message_id, attempt_no)
);
CREATE INDEX idx_attempts_record_hash ON dlq.attempts (record_hash, ended_at)
    WHERE record_hash IS NOT NULL AND to_status = 'RESOLVED';

-- How the record that an attempt sends differs from that of its message. A row is inserted with the claim, and kept as
-- long as the message's history.
CREATE TABLE dlq.edits (
    message_id   UUID        NOT NULL,
    attempt_id   UUID        NOT NULL,
    target_topic TEXT,                 -- NULL for the original topic
    set_value    BOOLEAN     NOT NULL,
    value        BYTEA,
    set_key      BOOLEAN     NOT NULL,
    key          BYTEA,
    set_headers  BOOLEAN     NOT NULL,
    headers      BYTEA,                -- encoded as in dlq_messages
    patch        BYTEA,                -- the redrive's JSON Patch; the values that it produced are not stored
    record_hash  BIGINT      NOT NULL, -- of key and value as they were sent; 0 for none
    created_at   TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (message_id, attempt_id)
);
CREATE INDEX idx_edits_record_hash ON dlq.edits (record_hash) WHERE record_hash <> 0;
