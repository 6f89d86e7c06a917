-- dlq-db: restores the archive table and the procedure of 003. Archived messages keep only the ten columns of 002;
-- messages in detached partitions are lost. The step refuses while there are objects with messages, or objects to
-- delete, because nothing else names them.
SET LOCAL lock_timeout = '5s';

DO $$
DECLARE
    v_detached TEXT;
BEGIN
    LOCK TABLE dlq.archive_objects, dlq.archive_deletions IN ACCESS EXCLUSIVE MODE;
    IF EXISTS (SELECT FROM dlq.archive_objects) THEN
        RAISE EXCEPTION 'dlq.archive_objects names objects with archived messages, which this step would lose: restore or purge them first';
    END IF;
    IF EXISTS (SELECT FROM dlq.archive_deletions) THEN
        RAISE EXCEPTION 'dlq.archive_deletions names objects to delete, which this step would forget: run the archiver until it is empty; '
            'it has the objects that an object lock retains until their retained_until';
    END IF;
    FOR v_detached IN SELECT name FROM dlq.archive_partitions WHERE detached_at IS NOT NULL LOOP
        EXECUTE format('DROP TABLE dlq.%I', v_detached);
    END LOOP;
    IF to_regrole('dlq_rw') IS NOT NULL THEN
        REVOKE EXECUTE ON PROCEDURE dlq.archive_old_dlq_messages(INT, INT) FROM dlq_rw;
    END IF;
END $$;
DROP VIEW dlq.archived_messages;
CREATE TEMP TABLE archived ON COMMIT DROP AS
SELECT id, original_topic, error_message, retry_count, max_retries, payload, status, created_at, updated_at, last_retry_at
FROM dlq.dlq_messages_archive;
DROP TABLE dlq.dlq_messages_archive, dlq.archive_runs, dlq.archive_deletions, dlq.archive_hidden,
    dlq.archive_object_topics, dlq.archive_objects, dlq.archive_ids, dlq.archive_partitions;
DROP FUNCTION dlq.erase_archived(UUID, UUID, TEXT, TEXT, TIMESTAMPTZ), dlq.purge_archive_objects(INT, INT),
    dlq.replace_archive_object(UUID, TEXT, JSONB, UUID[]), dlq.archive_object_ids(UUID),
    dlq.hide_archived(UUID, UUID, TEXT, TEXT), dlq.add_archive_object(JSONB, UUID[], TIMESTAMPTZ[], TEXT[]),
    dlq.keep_archive_object(TEXT), dlq.purge_detached(INT), dlq.detach_archive_partitions(INT),
    dlq.create_archive_partitions(INT), dlq.refuse_delete_by_ctid(), dlq.note_archived_messages(),
    dlq.note_archive_truncated(), dlq.note_archive_changes(), dlq.note_unarchived(), dlq.note_archived();

CREATE TABLE dlq.dlq_messages_archive (
    id UUID PRIMARY KEY DEFAULT gen_random_uuid(), original_topic VARCHAR(255) NOT NULL, error_message TEXT NOT NULL,
    retry_count INT NOT NULL DEFAULT 0, max_retries INT NOT NULL DEFAULT 3,
    payload JSONB, status VARCHAR(50) NOT NULL DEFAULT 'PENDING',
    created_at TIMESTAMPTZ NOT NULL DEFAULT NOW(), updated_at TIMESTAMPTZ NOT NULL DEFAULT NOW(), last_retry_at TIMESTAMPTZ,
    CONSTRAINT chk_dlq_messages_status CHECK (status IN ('PENDING', 'RETRYING', 'RESOLVED', 'DEAD'))
);
CREATE INDEX ON dlq.dlq_messages_archive (original_topic);
CREATE INDEX ON dlq.dlq_messages_archive (status);
CREATE INDEX ON dlq.dlq_messages_archive (created_at);
INSERT INTO dlq.dlq_messages_archive SELECT * FROM archived;

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
