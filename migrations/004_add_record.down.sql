-- Back to the ten columns, and to the procedure of 003.

CREATE OR REPLACE PROCEDURE dlq.archive_old_dlq_messages(
    p_retention_days INT DEFAULT 30,
    p_batch_size INT DEFAULT 1000
)
LANGUAGE plpgsql
AS $$
DECLARE
    v_cutoff TIMESTAMPTZ;
    v_archived_count BIGINT := 0;
    v_batch_count INT;
BEGIN
    IF p_retention_days IS NULL OR p_retention_days < 0 THEN
        RAISE EXCEPTION 'p_retention_days must not be negative' USING ERRCODE = '22023';
    END IF;
    IF p_batch_size IS NULL OR p_batch_size < 1 THEN
        RAISE EXCEPTION 'p_batch_size must be positive' USING ERRCODE = '22023';
    END IF;
    v_cutoff := NOW() - make_interval(days => p_retention_days);

    LOOP
        WITH picked AS (
            SELECT id FROM dlq.dlq_messages
            WHERE status IN ('RESOLVED', 'DEAD') AND updated_at < v_cutoff
            LIMIT p_batch_size FOR UPDATE SKIP LOCKED
        ), moved AS (
            DELETE FROM dlq.dlq_messages m USING picked WHERE m.id = picked.id
            RETURNING m.id, m.original_topic, m.error_message, m.retry_count, m.max_retries,
                      m.payload, m.status, m.created_at, m.updated_at, m.last_retry_at
        )
        INSERT INTO dlq.dlq_messages_archive
            (id, original_topic, error_message, retry_count, max_retries,
             payload, status, created_at, updated_at, last_retry_at)
        SELECT id, original_topic, error_message, retry_count, max_retries,
               payload, status, created_at, updated_at, last_retry_at
        FROM moved;

        GET DIAGNOSTICS v_batch_count = ROW_COUNT;
        v_archived_count := v_archived_count + v_batch_count;
        COMMIT;
        EXIT WHEN v_batch_count = 0;
    END LOOP;

    RAISE NOTICE 'Archived % DLQ messages older than % days', v_archived_count, p_retention_days;
END;
$$;

DROP TABLE dlq.attempts;

DROP INDEX dlq.idx_dlq_messages_dlq_topic, dlq.idx_dlq_messages_archive_archived_at;
DROP INDEX dlq.idx_dlq_messages_original_topic, dlq.idx_dlq_messages_status, dlq.idx_dlq_messages_created_at;
CREATE INDEX idx_dlq_messages_original_topic ON dlq.dlq_messages (original_topic);
CREATE INDEX idx_dlq_messages_status ON dlq.dlq_messages (status);
CREATE INDEX idx_dlq_messages_created_at ON dlq.dlq_messages (created_at);

ALTER TABLE dlq.dlq_messages_archive DROP COLUMN archived_at;

ALTER TABLE dlq.dlq_messages RESET (
    autovacuum_vacuum_scale_factor,
    autovacuum_vacuum_cost_delay,
    autovacuum_vacuum_insert_scale_factor,
    autovacuum_analyze_scale_factor
);

DO $$
DECLARE
    v_table TEXT;
BEGIN
    FOREACH v_table IN ARRAY ARRAY['dlq.dlq_messages', 'dlq.dlq_messages_archive'] LOOP
        EXECUTE format($ddl$
            ALTER TABLE %s
                DROP COLUMN key, DROP COLUMN value, DROP COLUMN headers, DROP COLUMN payload_note,
                DROP COLUMN omitted_size, DROP COLUMN omitted_sha256,
                DROP COLUMN dlq_topic_id, DROP COLUMN dlq_incarnation_id, DROP COLUMN dlq_partition,
                DROP COLUMN dlq_offset, DROP COLUMN dlq_timestamp,
                DROP COLUMN original_partition, DROP COLUMN original_offset, DROP COLUMN original_timestamp,
                DROP COLUMN origin_confidence, DROP COLUMN consumer_group, DROP COLUMN consumer_attempts,
                DROP COLUMN dialect, DROP COLUMN error_class, DROP COLUMN parent_id, DROP COLUMN root_id,
                DROP COLUMN attempt_no, DROP COLUMN rescues, DROP COLUMN claim_id,
                DROP COLUMN claim_expires_at, DROP COLUMN claim_topic, DROP COLUMN claim_topic_id, DROP COLUMN claim_partition,
                DROP COLUMN claim_end_offset, DROP COLUMN unsettled, DROP COLUMN next_attempt_at,
                DROP COLUMN last_publish_error, DROP COLUMN last_publish_error_class, DROP COLUMN outcome,
                ALTER COLUMN payload SET STORAGE EXTENDED,
                ALTER COLUMN error_message SET STORAGE EXTENDED,
                RESET (toast_tuple_target)
        $ddl$, v_table);
    END LOOP;
END;
$$;

DROP TABLE dlq.ingest_positions;
DROP TABLE dlq.topic_incarnations;
DROP TABLE dlq.topics;
