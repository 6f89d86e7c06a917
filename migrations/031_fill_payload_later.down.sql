SET LOCAL lock_timeout = '5s';

CREATE OR REPLACE TRIGGER trg_dlq_messages_updated_at
    BEFORE UPDATE OF id, original_topic, error_message, retry_count, max_retries,
                     payload, status, created_at, updated_at, last_retry_at
    ON dlq.dlq_messages
    FOR EACH ROW
    WHEN (NEW.updated_at IS NOT DISTINCT FROM OLD.updated_at)
    EXECUTE FUNCTION dlq.update_updated_at();

-- Messages that wait stay without a payload: their bytes are there.
DROP VIEW dlq.payload_progress;
DROP TABLE dlq.payload_queue;
