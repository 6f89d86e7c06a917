-- dlq-db: records that are over a limit or cannot be read; marks of logs without topic ids.

SET LOCAL lock_timeout = '5s'; -- see 011

-- What a message lacks of its record: {"limit": NAME} for one over a limit of ingest,
-- {"unreadable": REASON, "last_offset": N} for offsets that cannot be read.
ALTER TABLE dlq.dlq_messages_archive ADD COLUMN defect JSONB;
ALTER TABLE dlq.dlq_messages ADD COLUMN defect JSONB;

-- The last record that was read below next_offset, only where the broker gives topics no
-- ids: another record there means another log.
ALTER TABLE dlq.ingest_positions
    ADD COLUMN mark_offset BIGINT,
    ADD COLUMN mark_time   BIGINT, -- milliseconds
    ADD COLUMN mark_crc    BIGINT; -- of the record's batch

-- The archiver's procedure as it is, with the column.
DO $$
DECLARE
    source TEXT := pg_get_functiondef('dlq.archive_old_dlq_messages(int, int)'::regprocedure);
BEGIN
    IF source NOT LIKE '%omitted_sha256, defect,%' THEN
        EXECUTE replace(source, 'omitted_sha256,', 'omitted_sha256, defect,');
    END IF;
END;
$$;
