-- dlq-db: the archive and the procedure that fills it.

CREATE TABLE IF NOT EXISTS dlq.dlq_messages_archive (
    LIKE dlq.dlq_messages INCLUDING ALL
);

-- Moves RESOLVED and DEAD rows whose updated_at is older than the retention to the archive, batch by batch, each in a
-- transaction of its own. One statement deletes and inserts a row, so the row is in exactly one of the two tables at
-- every moment. Rows that another session has locked are left for the next run. CALL the procedure outside a
-- transaction.
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
