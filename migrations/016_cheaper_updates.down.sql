SET LOCAL lock_timeout = '5s';

DROP FUNCTION dlq.merge_documents();
DROP TRIGGER trg_dlq_messages_archive_refuse_places ON dlq.dlq_messages_archive;
DROP FUNCTION dlq.refuse_places();

ALTER INDEX dlq.idx_message_documents_text SET (gin_pending_list_limit = 1024);
ALTER INDEX dlq.idx_message_documents_terms SET (gin_pending_list_limit = 1024);

-- As 011 made it.
CREATE OR REPLACE FUNCTION dlq.count_updated_messages() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO dlq.message_counters AS c
    SELECT original_topic, dlq_topic_id, status, pg_backend_pid() % 16, sum(n)
    FROM (
        SELECT original_topic, coalesce(dlq_topic_id, 0) AS dlq_topic_id, status, 1 AS n FROM new_rows
        UNION ALL
        SELECT original_topic, coalesce(dlq_topic_id, 0), status, -1 FROM old_rows
    ) changes
    GROUP BY 1, 2, 3 HAVING sum(n) <> 0 ORDER BY 1, 2, 3
    ON CONFLICT (original_topic, dlq_topic_id, status, shard)
    DO UPDATE SET messages = c.messages + excluded.messages;

    INSERT INTO dlq.group_counters AS c
    SELECT group_id, original_topic, status, pg_backend_pid() % 4, sum(n)
    FROM (
        SELECT group_id, original_topic, status, 1 AS n FROM new_rows WHERE group_id IS NOT NULL
        UNION ALL
        SELECT group_id, original_topic, status, -1 FROM old_rows WHERE group_id IS NOT NULL
    ) changes
    GROUP BY 1, 2, 3 HAVING sum(n) <> 0 ORDER BY 1, 2, 3
    ON CONFLICT (group_id, original_topic, status, shard)
    DO UPDATE SET messages = c.messages + excluded.messages;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;

    -- A message that gets a group arrives in it now, at the time at which it came;
    -- one that gets another group or topic takes its arrival along.
    PERFORM dlq.count_arrivals(array_agg(group_id), array_agg(original_topic), array_agg(hour), array_agg(n),
        array_agg(opened), array_agg(oldest), array_agg(newest))
    FROM (
        SELECT group_id, original_topic, date_trunc('hour', created_at, 'UTC') AS hour, sum(n) AS n,
            sum(n) FILTER (WHERE status <> 'RESOLVED') AS opened, min(created_at) AS oldest, max(created_at) AS newest
        FROM (
            SELECT group_id, original_topic, status, created_at, 1 AS n FROM new_rows WHERE group_id IS NOT NULL
            UNION ALL
            SELECT group_id, original_topic, status, created_at, -1 FROM old_rows WHERE group_id IS NOT NULL
        ) changes
        WHERE isfinite(created_at)
        GROUP BY 1, 2, 3 HAVING sum(n) <> 0
    ) arrived HAVING count(*) > 0;
    RETURN NULL;
END;
$$;

-- As 002 made it.
CREATE OR REPLACE TRIGGER trg_dlq_messages_updated_at
    BEFORE UPDATE OF id, original_topic, error_message, retry_count, max_retries,
                     payload, status, created_at, updated_at, last_retry_at
    ON dlq.dlq_messages
    FOR EACH ROW
    EXECUTE FUNCTION dlq.update_updated_at();

ALTER TABLE dlq.dlq_messages
    ALTER COLUMN original_topic           SET STORAGE EXTENDED,
    ALTER COLUMN status                   SET STORAGE EXTENDED,
    ALTER COLUMN payload_note             SET STORAGE EXTENDED,
    ALTER COLUMN origin_confidence        SET STORAGE EXTENDED,
    ALTER COLUMN consumer_group           SET STORAGE EXTENDED,
    ALTER COLUMN dialect                  SET STORAGE EXTENDED,
    ALTER COLUMN error_class              SET STORAGE EXTENDED,
    ALTER COLUMN claim_topic              SET STORAGE EXTENDED,
    ALTER COLUMN claim_topic_id           SET STORAGE EXTENDED,
    ALTER COLUMN last_publish_error_class SET STORAGE EXTENDED,
    ALTER COLUMN outcome                  SET STORAGE EXTENDED;
