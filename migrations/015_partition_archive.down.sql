-- dlq-db: the archive as one table again. What was taken off is forgotten first; the
-- largest partition becomes the table, and the rows of the others are copied into it.
SET LOCAL lock_timeout = '5s';

DO $$
DECLARE
    v_base TEXT;
    v_part TEXT;
    v_index RECORD;
    v_statement TEXT;
    v_grants TEXT[];
BEGIN
    WHILE dlq.purge_detached(100000) > 0 LOOP
    END LOOP;
    IF EXISTS (SELECT FROM dlq.archive_partitions WHERE detached_at IS NOT NULL) THEN
        RAISE EXCEPTION 'a partition of the archive is being purged' USING ERRCODE = '55P03';
    END IF;
    LOCK TABLE dlq.dlq_messages_archive IN ACCESS EXCLUSIVE MODE;
    SELECT name INTO v_base FROM dlq.archive_partitions
    ORDER BY pg_table_size(format('dlq.%I', name)::regclass) DESC, until_at LIMIT 1;
    v_grants := ARRAY(
        SELECT format('GRANT %s ON dlq.dlq_messages_archive TO %s%s', privilege_type,
            CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END, CASE WHEN is_grantable THEN ' WITH GRANT OPTION' END)
        FROM pg_class, aclexplode(relacl) WHERE oid = 'dlq.dlq_messages_archive'::regclass AND grantee <> relowner);

    FOR v_part IN SELECT name FROM dlq.archive_partitions ORDER BY until_at LOOP
        EXECUTE format('ALTER TABLE dlq.dlq_messages_archive DETACH PARTITION dlq.%I', v_part);
        IF v_part <> v_base THEN
            EXECUTE format('INSERT INTO dlq.%I SELECT * FROM dlq.%I', v_base, v_part);
            EXECUTE format('DROP TABLE dlq.%I', v_part);
        END IF;
    END LOOP;
    DROP TABLE dlq.dlq_messages_archive;
    EXECUTE format('ALTER TABLE dlq.%I RENAME TO dlq_messages_archive', v_base);
    FOR v_index IN
        SELECT c.relname AS name FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
        WHERE i.indrelid = 'dlq.dlq_messages_archive'::regclass
    LOOP
        EXECUTE format('ALTER INDEX dlq.%I RENAME TO %I', v_index.name, replace(v_index.name, v_base, 'dlq_messages_archive'));
    END LOOP;
    ALTER TABLE dlq.dlq_messages_archive DROP CONSTRAINT dlq_messages_archive_pkey;
    ALTER TABLE dlq.dlq_messages_archive ADD CONSTRAINT dlq_messages_archive_pkey PRIMARY KEY (id);
    FOREACH v_statement IN ARRAY v_grants LOOP
        EXECUTE v_statement;
    END LOOP;
END;
$$;

CREATE TRIGGER trg_dlq_messages_archive_drop_documents AFTER DELETE ON dlq.dlq_messages_archive
    REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION dlq.drop_documents();
CREATE TRIGGER trg_dlq_messages_archive_truncate_documents AFTER TRUNCATE ON dlq.dlq_messages_archive
    FOR EACH STATEMENT EXECUTE FUNCTION dlq.drop_truncated_documents();

-- As in 011.
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

DROP FUNCTION dlq.purge_detached(INT);
DROP FUNCTION dlq.detach_archive_partitions(INT);
DROP FUNCTION dlq.create_archive_partitions(INT);
DROP FUNCTION dlq.note_archive_truncated();
DROP FUNCTION dlq.note_archive_changes();
DROP FUNCTION dlq.note_unarchived();
DROP FUNCTION dlq.note_archived();
DROP TABLE dlq.archive_ids;
DROP TABLE dlq.archive_partitions;

-- Last: nobody reads messages while it goes.
DROP INDEX IF EXISTS dlq.idx_dlq_messages_backdated;
