SET LOCAL lock_timeout = '5s';

-- As 017 made it.
CREATE OR REPLACE PROCEDURE dlq.archive_old_dlq_messages(
    p_retention_days INT DEFAULT 30,
    p_batch_size INT DEFAULT 1000
)
LANGUAGE plpgsql
AS $$
DECLARE
    v_cutoff TIMESTAMPTZ;
    v_status TEXT;
    v_backdated BOOLEAN;
    v_after_time TIMESTAMPTZ;
    v_after_id UUID;
    v_archived BIGINT := 0;
    v_batch BIGINT;
    v_ready TIMESTAMPTZ;
    v_size BIGINT;
    v_began TIMESTAMPTZ;
    v_moved DOUBLE PRECISION; -- milliseconds since then
    v_ended DOUBLE PRECISION; -- with the commit
BEGIN
    IF p_retention_days IS NULL OR p_retention_days < 0 THEN
        RAISE EXCEPTION 'p_retention_days must not be negative' USING ERRCODE = '22023';
    END IF;
    IF p_batch_size IS NULL OR p_batch_size < 1 THEN
        RAISE EXCEPTION 'p_batch_size must be positive' USING ERRCODE = '22023';
    END IF;
    v_size := least(p_batch_size, 10);
    v_cutoff := NOW() - make_interval(days => p_retention_days);
    PERFORM set_config('dlq.archived', '0', false);
    SELECT coalesce(max(until_at), '-infinity') INTO v_ready FROM dlq.archive_partitions WHERE detached_at IS NULL;
    FOR v_status, v_backdated IN VALUES ('RESOLVED', false), ('RESOLVED', true), ('DEAD', false), ('DEAD', true) LOOP
        v_after_time := '-infinity';
        v_after_id := '00000000-0000-0000-0000-000000000000';
        LOOP
            IF v_ready <= clock_timestamp() + interval '1 day' THEN
                PERFORM dlq.create_archive_partitions(1);
                SELECT max(until_at) INTO v_ready FROM dlq.archive_partitions WHERE detached_at IS NULL;
            END IF;
            v_began := clock_timestamp();
            WITH usual AS MATERIALIZED (
                SELECT m.ctid AS place, m.created_at AS walked, m.id FROM dlq.dlq_messages m
                WHERE NOT v_backdated AND m.status = v_status AND m.created_at < v_cutoff AND m.updated_at < v_cutoff
                  AND (m.created_at, m.id) > (v_after_time, v_after_id)
                ORDER BY m.created_at, m.id
                LIMIT v_size FOR UPDATE SKIP LOCKED
            ), backdated AS MATERIALIZED (
                SELECT m.ctid AS place, m.updated_at AS walked, m.id FROM dlq.dlq_messages m
                WHERE v_backdated AND m.status = v_status AND m.status IN ('RESOLVED', 'DEAD')
                  AND m.updated_at < m.created_at AND m.created_at >= v_cutoff AND m.updated_at < v_cutoff
                  AND (m.updated_at, m.id) > (v_after_time, v_after_id)
                ORDER BY m.updated_at, m.id
                LIMIT v_size FOR UPDATE SKIP LOCKED
            ), picked AS MATERIALIZED (
                SELECT place, walked, id FROM usual UNION ALL SELECT place, walked, id FROM backdated
            ), moved AS (
                DELETE FROM dlq.dlq_messages m WHERE m.ctid = ANY (ARRAY(SELECT place FROM picked))
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
                     claim_redrive_id, record_hash, group_id, archived_at)
                SELECT id, original_topic, error_message, retry_count, max_retries, payload, status,
                     created_at, updated_at, last_retry_at,
                     key, value, headers, payload_note, omitted_size, omitted_sha256,
                     dlq_topic_id, dlq_incarnation_id, dlq_partition, dlq_offset, dlq_timestamp,
                     original_partition, original_offset, original_timestamp, origin_confidence,
                     consumer_group, consumer_attempts, dialect, error_class, parent_id, root_id,
                     attempt_no, rescues, claim_id, claim_expires_at, claim_topic, claim_topic_id, claim_partition,
                     claim_end_offset, unsettled, next_attempt_at, last_publish_error,
                     last_publish_error_class, outcome,
                     claim_redrive_id, record_hash, group_id, clock_timestamp()
                FROM moved
                RETURNING 1
            )
            SELECT (SELECT count(*) FROM kept), walked, id INTO v_batch, v_after_time, v_after_id
            FROM picked ORDER BY walked DESC, id DESC LIMIT 1;
            EXIT WHEN NOT FOUND;
            v_archived := v_archived + v_batch;
            PERFORM set_config('dlq.archived', v_archived::text, false);
            v_moved := 1000 * extract(epoch FROM clock_timestamp() - v_began);
            COMMIT;
            v_ended := 1000 * extract(epoch FROM clock_timestamp() - v_began);
            IF v_batch = v_size OR v_ended > 20 THEN
                v_size := greatest(1, least(p_batch_size, 2 * v_size, greatest(floor(v_size * 20 / greatest(v_ended, 1)),
                    least(100, floor(v_size * 40 / greatest(v_moved, 1))))));
            END IF;
        END LOOP;
        COMMIT;
    END LOOP;
    RAISE NOTICE 'Archived % DLQ messages older than % days', v_archived, p_retention_days;
END;
$$;

ALTER TABLE dlq.dlq_messages DROP COLUMN dlq_timestamp_ms;
ALTER TABLE dlq.dlq_messages_archive DROP COLUMN dlq_timestamp_ms;
