-- Leaves only the ten columns of 002.
SET LOCAL lock_timeout = '5s';

DROP VIEW dlq.messages, dlq.payload_progress;
DROP TABLE dlq.edits, dlq.attempts, dlq.share_records, dlq.undecoded_messages, dlq.quarantine, dlq.payload_queue,
    dlq.records, dlq.topic_mapping, dlq.ingest_positions, dlq.topic_incarnations, dlq.topics;

CREATE OR REPLACE TRIGGER trg_dlq_messages_updated_at
    BEFORE UPDATE OF id, original_topic, error_message, retry_count, max_retries,
                     payload, status, created_at, updated_at, last_retry_at
    ON dlq.dlq_messages
    FOR EACH ROW
    EXECUTE FUNCTION dlq.update_updated_at();

-- Dropping a column also drops the indexes that use it.
DO $$
BEGIN
    EXECUTE (SELECT 'ALTER TABLE dlq.dlq_messages ' || string_agg(format('DROP COLUMN %I', attname), ', ')
        FROM pg_attribute WHERE attrelid = 'dlq.dlq_messages'::regclass AND attnum > 10 AND NOT attisdropped);
END;
$$;
ALTER TABLE dlq.dlq_messages
    ALTER COLUMN payload SET STORAGE EXTENDED, ALTER COLUMN error_message SET STORAGE EXTENDED,
    ALTER COLUMN original_topic SET STORAGE EXTENDED, ALTER COLUMN status SET STORAGE EXTENDED,
    RESET (toast_tuple_target, autovacuum_vacuum_scale_factor, autovacuum_vacuum_cost_delay,
        autovacuum_vacuum_insert_scale_factor, autovacuum_analyze_scale_factor);
DROP INDEX dlq.idx_dlq_messages_original_topic, dlq.idx_dlq_messages_status, dlq.idx_dlq_messages_created_at,
    dlq.idx_dlq_messages_pending, dlq.idx_dlq_messages_last_retry, dlq.idx_dlq_messages_backdated;
CREATE INDEX idx_dlq_messages_original_topic ON dlq.dlq_messages (original_topic);
CREATE INDEX idx_dlq_messages_status ON dlq.dlq_messages (status);
CREATE INDEX idx_dlq_messages_created_at ON dlq.dlq_messages (created_at);

COMMENT ON TABLE dlq_migrations.schema_migrations IS NULL;
