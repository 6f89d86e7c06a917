-- migrate:one-by-one

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

CREATE INDEX CONCURRENTLY IF NOT EXISTS dlq_messages_archive_original_topic_old
    ON dlq.dlq_messages_archive (original_topic);

CREATE INDEX CONCURRENTLY IF NOT EXISTS dlq_messages_archive_created_at_old
    ON dlq.dlq_messages_archive (created_at);

DO $$
BEGIN
    PERFORM set_config('lock_timeout', '5s', true);
    LOCK TABLE dlq.dlq_messages_archive IN ACCESS EXCLUSIVE MODE;
    DROP INDEX IF EXISTS dlq.dlq_messages_archive_original_topic_idx, dlq.dlq_messages_archive_created_at_idx;
    ALTER INDEX dlq.dlq_messages_archive_original_topic_old RENAME TO dlq_messages_archive_original_topic_idx;
    ALTER INDEX dlq.dlq_messages_archive_created_at_old RENAME TO dlq_messages_archive_created_at_idx;
END;
$$;

-- Of a way up that was given up.
DROP INDEX CONCURRENTLY IF EXISTS dlq.dlq_messages_archive_original_topic_new;

DROP INDEX CONCURRENTLY IF EXISTS dlq.dlq_messages_archive_created_at_new;

DROP INDEX CONCURRENTLY IF EXISTS dlq.idx_dlq_messages_archive_last_retry;

DROP INDEX CONCURRENTLY IF EXISTS dlq.idx_dlq_messages_archive_group;

DROP INDEX CONCURRENTLY IF EXISTS dlq.idx_dlq_messages_ungrouped;

DROP INDEX CONCURRENTLY IF EXISTS dlq.idx_dlq_messages_last_retry;

DROP INDEX CONCURRENTLY IF EXISTS dlq.idx_dlq_messages_pending;

DROP INDEX CONCURRENTLY IF EXISTS dlq.idx_dlq_messages_group;
