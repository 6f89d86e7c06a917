SET LOCAL lock_timeout = '5s';

DO $$
BEGIN
    EXECUTE replace(pg_get_functiondef('dlq.archive_old_dlq_messages(int, int)'::regprocedure), 'omitted_sha256, defect,', 'omitted_sha256,');
END;
$$;

ALTER TABLE dlq.ingest_positions DROP COLUMN mark_offset, DROP COLUMN mark_time, DROP COLUMN mark_crc;
ALTER TABLE dlq.dlq_messages DROP COLUMN defect;
ALTER TABLE dlq.dlq_messages_archive DROP COLUMN defect;
