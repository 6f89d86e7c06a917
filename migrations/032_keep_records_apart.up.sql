-- dlq-db: the bytes of records in a table of their own.

SET LOCAL lock_timeout = '5s'; -- see 011

-- Programs read the bytes from either place from here on; step 033 has them written here.
-- A row is written once, with its message, and goes when the message is deleted or purged:
-- an attempt and the archiver write the message alone. Messages that were stored before
-- this step, or by SQL, have their bytes in their own row.
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

CREATE VIEW dlq.archived_messages AS
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
    m.last_publish_error, m.last_publish_error_class, m.outcome, m.archived_at, m.claim_redrive_id,
    m.record_hash, m.group_id, m.dlq_timestamp_ms, m.defect
FROM dlq.dlq_messages_archive m LEFT JOIN dlq.records r ON r.message_id = m.id;

-- As in 012, with the records.
CREATE OR REPLACE FUNCTION dlq.drop_documents() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_id UUID;
BEGIN
    SELECT id INTO v_id FROM old_rows LIMIT 1;
    IF v_id IS NULL OR EXISTS (SELECT FROM dlq.dlq_messages WHERE id = v_id)
        OR EXISTS (SELECT FROM dlq.dlq_messages_archive WHERE id = v_id) THEN
        RETURN NULL;
    END IF;
    DELETE FROM dlq.records WHERE message_id = ANY (ARRAY(SELECT id FROM old_rows));
    DELETE FROM dlq.message_documents WHERE message_id = ANY (ARRAY(
        SELECT message_id FROM dlq.message_documents WHERE message_id = ANY (ARRAY(SELECT id FROM old_rows))
        ORDER BY message_id FOR UPDATE));
    RETURN NULL;
END;
$$;

CREATE OR REPLACE FUNCTION dlq.drop_truncated_documents() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM dlq.records r
    WHERE NOT EXISTS (SELECT FROM dlq.dlq_messages m WHERE m.id = r.message_id)
      AND NOT EXISTS (SELECT FROM dlq.dlq_messages_archive a WHERE a.id = r.message_id);
    DELETE FROM dlq.message_documents d
    WHERE NOT EXISTS (SELECT FROM dlq.dlq_messages m WHERE m.id = d.message_id)
      AND NOT EXISTS (SELECT FROM dlq.dlq_messages_archive a WHERE a.id = d.message_id);
    RETURN NULL;
END;
$$;

-- As in 015, with the records.
CREATE OR REPLACE FUNCTION dlq.purge_detached(p_batch INT) RETURNS BIGINT LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
DECLARE
    v_part dlq.archive_partitions;
    v_ids UUID[];
BEGIN
    IF p_batch IS NULL OR p_batch < 1 THEN
        RAISE EXCEPTION 'p_batch must be positive' USING ERRCODE = '22023';
    END IF;
    LOOP
        SELECT * INTO v_part FROM dlq.archive_partitions
        WHERE detached_at IS NOT NULL ORDER BY until_at LIMIT 1 FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            RETURN 0;
        END IF;
        EXECUTE format('SELECT array_agg(id) FROM (SELECT id FROM dlq.%I WHERE id > $1 ORDER BY id LIMIT $2) x', v_part.name)
            INTO v_ids USING v_part.forgotten, p_batch;
        IF v_ids IS NULL THEN
            EXECUTE format('DROP TABLE dlq.%I', v_part.name);
            DELETE FROM dlq.archive_partitions WHERE name = v_part.name;
            CONTINUE;
        END IF;
        WITH history AS (
            DELETE FROM dlq.attempts WHERE message_id = ANY (v_ids) RETURNING attempt_id
        )
        DELETE FROM dlq.returns WHERE attempt_id = ANY (ARRAY(SELECT attempt_id FROM history));
        DELETE FROM dlq.records WHERE message_id = ANY (v_ids);
        DELETE FROM dlq.edits WHERE message_id = ANY (v_ids);
        DELETE FROM dlq.message_documents WHERE message_id = ANY (ARRAY(
            SELECT message_id FROM dlq.message_documents WHERE message_id = ANY (v_ids) ORDER BY message_id FOR UPDATE));
        DELETE FROM dlq.archive_ids WHERE id = ANY (v_ids) AND archived_at < v_part.until_at;
        UPDATE dlq.archive_partitions SET forgotten = v_ids[cardinality(v_ids)] WHERE name = v_part.name;
        RETURN cardinality(v_ids);
    END LOOP;
END;
$$;

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'dlq_rw') THEN
        GRANT SELECT ON dlq.records, dlq.messages, dlq.archived_messages TO dlq_rw;
    END IF;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'dlq_ro') THEN
        GRANT SELECT ON dlq.records, dlq.messages, dlq.archived_messages TO dlq_ro;
    END IF;
END;
$$;
