-- dlq-db: the bytes of new records go into dlq.records.

-- A program of before 032 would read no bytes in messages that are stored so: it must
-- have ended before the ingesters of this step start.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'dlq_rw') THEN
        GRANT INSERT ON dlq.records TO dlq_rw;
    END IF;
END;
$$;
