-- migrate:one-by-one
-- dlq-db: the indexes of what 011 and 012 brought. They are built while messages are
-- stored and read; what is asked meanwhile is answered without them, only slower.

-- What a build left that was interrupted is no index, and has the name of one.
DO $$
DECLARE
    v_name TEXT;
BEGIN
    PERFORM set_config('lock_timeout', '5s', true);
    FOR v_name IN
        SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
        WHERE c.relnamespace = 'dlq'::regnamespace AND NOT i.indisvalid
          AND i.indrelid IN ('dlq.dlq_messages'::regclass, 'dlq.dlq_messages_archive'::regclass)
    LOOP
        EXECUTE format('DROP INDEX dlq.%I', v_name);
    END LOOP;
END;
$$;

CREATE INDEX CONCURRENTLY IF NOT EXISTS idx_dlq_messages_group
    ON dlq.dlq_messages (group_id, created_at, id) WHERE group_id IS NOT NULL;

-- The oldest of a topic that nobody has taken yet.
CREATE INDEX CONCURRENTLY IF NOT EXISTS idx_dlq_messages_pending
    ON dlq.dlq_messages (original_topic, created_at, id) WHERE status = 'PENDING';

-- Messages that were never retried stand in no list that is sorted by it.
CREATE INDEX CONCURRENTLY IF NOT EXISTS idx_dlq_messages_last_retry
    ON dlq.dlq_messages (last_retry_at, id) WHERE last_retry_at IS NOT NULL;

-- Rows that were put in by SQL wait here for their error group.
CREATE INDEX CONCURRENTLY IF NOT EXISTS idx_dlq_messages_ungrouped
    ON dlq.dlq_messages (created_at, id) WHERE group_id IS NULL;

CREATE INDEX CONCURRENTLY IF NOT EXISTS idx_dlq_messages_archive_group
    ON dlq.dlq_messages_archive (group_id, created_at, id) WHERE group_id IS NOT NULL;

CREATE INDEX CONCURRENTLY IF NOT EXISTS idx_dlq_messages_archive_last_retry
    ON dlq.dlq_messages_archive (last_retry_at, id) WHERE last_retry_at IS NOT NULL;

-- The archive's copies of the indexes of 002 keep their names and leading columns,
-- and serve pages in order as those of the live table do.
CREATE INDEX CONCURRENTLY IF NOT EXISTS dlq_messages_archive_original_topic_new
    ON dlq.dlq_messages_archive (original_topic, created_at, id);

CREATE INDEX CONCURRENTLY IF NOT EXISTS dlq_messages_archive_created_at_new
    ON dlq.dlq_messages_archive (created_at, id);

DO $$
BEGIN
    PERFORM set_config('lock_timeout', '5s', true);
    LOCK TABLE dlq.dlq_messages_archive IN ACCESS EXCLUSIVE MODE;
    DROP INDEX IF EXISTS dlq.dlq_messages_archive_original_topic_idx, dlq.dlq_messages_archive_created_at_idx;
    ALTER INDEX dlq.dlq_messages_archive_original_topic_new RENAME TO dlq_messages_archive_original_topic_idx;
    ALTER INDEX dlq.dlq_messages_archive_created_at_new RENAME TO dlq_messages_archive_created_at_idx;
END;
$$;
