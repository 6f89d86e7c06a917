SET LOCAL lock_timeout = '5s';

-- As 005 made them.

CREATE OR REPLACE FUNCTION dlq.count_inserted_messages() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO dlq.message_counters AS c
    SELECT original_topic, coalesce(dlq_topic_id, 0), status, pg_backend_pid() % 16, count(*)
    FROM new_rows GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
    ON CONFLICT (original_topic, dlq_topic_id, status, shard)
    DO UPDATE SET messages = c.messages + excluded.messages;
    RETURN NULL;
END;
$$;

CREATE OR REPLACE FUNCTION dlq.count_deleted_messages() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO dlq.message_counters AS c
    SELECT original_topic, coalesce(dlq_topic_id, 0), status, pg_backend_pid() % 16, -count(*)
    FROM old_rows GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
    ON CONFLICT (original_topic, dlq_topic_id, status, shard)
    DO UPDATE SET messages = c.messages + excluded.messages;
    RETURN NULL;
END;
$$;

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
    RETURN NULL;
END;
$$;

CREATE OR REPLACE FUNCTION dlq.count_truncated_messages() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM dlq.message_counters;
    RETURN NULL;
END;
$$;

DROP FUNCTION dlq.purge_groups(INT, INT);
DROP FUNCTION dlq.purge_arrivals(INT, INT);
DROP FUNCTION dlq.count_arrivals(UUID[], TEXT[], TIMESTAMPTZ[], BIGINT[], BIGINT[], TIMESTAMPTZ[], TIMESTAMPTZ[]);
DROP TABLE dlq.group_arrivals;
DROP TABLE dlq.group_counters;
DROP TABLE dlq.error_groups;
ALTER TABLE dlq.dlq_messages_archive DROP COLUMN group_id;
ALTER TABLE dlq.dlq_messages DROP COLUMN group_id;

-- As 010 made it.
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
                     last_publish_error_class, outcome,
                     claim_redrive_id, record_hash, archived_at)
                SELECT id, original_topic, error_message, retry_count, max_retries, payload, status,
                     created_at, updated_at, last_retry_at,
                     key, value, headers, payload_note, omitted_size, omitted_sha256,
                     dlq_topic_id, dlq_incarnation_id, dlq_partition, dlq_offset, dlq_timestamp,
                     original_partition, original_offset, original_timestamp, origin_confidence,
                     consumer_group, consumer_attempts, dialect, error_class, parent_id, root_id,
                     attempt_no, rescues, claim_id, claim_expires_at, claim_topic, claim_topic_id, claim_partition,
                     claim_end_offset, unsettled, next_attempt_at, last_publish_error,
                     last_publish_error_class, outcome,
                     claim_redrive_id, record_hash, clock_timestamp()
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
