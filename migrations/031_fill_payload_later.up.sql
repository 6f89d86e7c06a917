-- dlq-db: the column payload is filled after the message is stored.

SET LOCAL lock_timeout = '5s'; -- see 011

-- The messages whose payload_note is 'pending': one row for each batch that was stored.
CREATE TABLE dlq.payload_queue (
    id          BIGINT      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stored_at   TIMESTAMPTZ NOT NULL DEFAULT now(), -- not later than created_at of any of the messages
    taken_until TIMESTAMPTZ NOT NULL DEFAULT '-infinity',
    messages    INT         NOT NULL,
    message_ids UUID[]      NOT NULL
);
ALTER TABLE dlq.payload_queue ALTER COLUMN message_ids SET STORAGE EXTERNAL; -- ids do not compress

-- Every message that was created before payload_until has its payload, or payload_note
-- says why not.
CREATE VIEW dlq.payload_progress AS
SELECT coalesce(min(stored_at), clock_timestamp() - interval '1 second') AS payload_until,
    coalesce(sum(messages), 0)::bigint AS messages_pending
FROM dlq.payload_queue;

-- To fill the payload is not a change of the message: retention does not start again.
CREATE OR REPLACE TRIGGER trg_dlq_messages_updated_at
    BEFORE UPDATE OF id, original_topic, error_message, retry_count, max_retries,
                     payload, status, created_at, updated_at, last_retry_at
    ON dlq.dlq_messages
    FOR EACH ROW
    WHEN (NEW.updated_at IS NOT DISTINCT FROM OLD.updated_at
        AND (OLD.payload_note = 'pending' AND NEW.payload_note IS DISTINCT FROM 'pending') IS NOT TRUE)
    EXECUTE FUNCTION dlq.update_updated_at();

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'dlq_rw') THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON dlq.payload_queue TO dlq_rw;
        GRANT SELECT ON dlq.payload_progress TO dlq_rw;
    END IF;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'dlq_ro') THEN
        GRANT SELECT ON dlq.payload_queue, dlq.payload_progress TO dlq_ro;
    END IF;
END;
$$;
