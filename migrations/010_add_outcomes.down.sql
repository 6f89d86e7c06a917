DROP TABLE dlq.committed_offsets;
DROP TABLE dlq.topic_groups;
DROP INDEX dlq.idx_dlq_messages_archive_root;
DROP INDEX dlq.idx_dlq_messages_root;
DROP TABLE dlq.returns;
DROP INDEX dlq.idx_attempts_record_hash;
ALTER TABLE dlq.attempts DROP COLUMN record_hash;
ALTER TABLE dlq.dlq_messages_archive DROP COLUMN record_hash;
ALTER TABLE dlq.dlq_messages DROP COLUMN record_hash;

-- As 004 made it.
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
